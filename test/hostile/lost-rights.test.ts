/** The rights in one organization are revoked while two are served. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { secrets } from '../../src/apis/core-kinds.ts'
import { API_VERSION, type ResourceType } from '../../src/apis/meta.ts'
import { webhookEndpoints } from '../../src/apis/webhook-endpoint.ts'
import { webhookEvents } from '../../src/apis/webhook-event.ts'
import { isApiError } from '../../src/kube/client.ts'
import { type Installation, startInstallation } from '../support/installation.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import type { RoleProcess } from '../support/role-process.ts'
import { until } from '../support/until.ts'
import { tellFigures } from './figures.ts'

const EVENTS = 20
const ROLE_BINDINGS: ResourceType = {
  group: 'rbac.authorization.k8s.io',
  version: 'v1',
  plural: 'rolebindings',
  namespaced: true,
}

let davit: Installation
let receiver: Receiver
let controller: RoleProcess

beforeAll(async () => {
  receiver = await startReceiver()
  davit = await startInstallation()
  for (const name of ['acme', 'umbrella']) await davit.makeOrganization(name)
  controller = await davit.startController()
  await controller.untilReady()
}, 240_000)

afterAll(async () => {
  await davit?.stop()
  await receiver?.close()
})

async function makeEndpoint(namespace: string, name: string): Promise<void> {
  await davit.api.create(webhookEndpoints, {
    apiVersion: API_VERSION,
    kind: 'WebhookEndpoint',
    metadata: { name, namespace },
    spec: {
      url: `${receiver.url}/${namespace}`,
      eventTypes: ['billing.updated'],
      signingSecret: { name: `${name}-keys` },
    },
  })
}

async function publish(namespace: string): Promise<void> {
  for (let n = 0; n < EVENTS; n += 1) {
    await davit.api.create(webhookEvents, {
      apiVersion: API_VERSION,
      kind: 'WebhookEvent',
      metadata: { name: `event-${n}`, namespace },
      spec: { type: 'billing.updated', dataText: `{"n":${n}}` },
    })
  }
}

async function hasSecret(namespace: string, name: string): Promise<boolean> {
  try {
    return (await davit.api.get(secrets, { namespace, name })).metadata.name === name
  } catch (error) {
    if (isApiError(error, 'NotFound')) return false
    throw error
  }
}

test('only that one lacks what needed them, and both get their events', async () => {
  await davit.api.delete(ROLE_BINDINGS, { namespace: 'acme', name: 'davit-secrets' })
  for (const namespace of ['acme', 'umbrella']) await makeEndpoint(namespace, 'late')
  await until(
    async () => (await hasSecret('umbrella', 'late-keys')) || undefined,
    () => 'the other one has no Secret',
    60_000,
  )
  for (const namespace of ['acme', 'umbrella']) await publish(namespace)
  for (const path of ['/acme', '/umbrella']) await receiver.waitFor(EVENTS, { path, timeoutMs: 60_000 })
  const without = await hasSecret('acme', 'late-keys')
  tellFigures('lost-rights', {
    'events of the other': EVENTS,
    'of them received': receiver.received('/umbrella').length,
    'events of the one without rights': EVENTS,
    'of those received': receiver.received('/acme').length,
    'process still runs': String(controller.running),
  })
  expect(without).toBe(false)
  expect(controller.running).toBe(true)
}, 180_000)
