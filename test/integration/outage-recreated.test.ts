/** Status writes for an endpoint that was deleted and recreated meanwhile, unnoticed. */

import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { API_VERSION } from '../../src/apis/meta.ts'
import { type WebhookEndpoint, webhookEndpoint, webhookEndpoints } from '../../src/apis/webhook-endpoint.ts'
import { connectKubernetes, type KubernetesClient } from '../../src/kube/resources.ts'
import { createClock, createRandom } from '../../src/lib/time.ts'
import { EndpointDirectory, EndpointStatusWriter } from '../../src/webhooks/endpoints/directory.ts'
import { testNamespace } from '../support/control-plane.ts'

const DISABLED = { state: 'disabled', disabledReason: 'ConsecutiveFailures', consecutiveFailures: 5 }

const nothing = () => undefined
const quiet = { info: nothing, warn: nothing, error: nothing }

let api: KubernetesClient
let namespace: string
let directory: EndpointDirectory
let statuses: EndpointStatusWriter

beforeAll(async () => {
  api = await connectKubernetes({
    kubeconfigPath: inject('kubeconfig'),
    clock: createClock(),
    random: createRandom(),
  })
  namespace = await testNamespace('recreated')
  directory = new EndpointDirectory()
  statuses = new EndpointStatusWriter(api, directory, quiet)
})

afterAll(async () => {
  await api?.close()
})

async function make(name = `e-${randomUUID()}`): Promise<WebhookEndpoint> {
  const made = await api.create(webhookEndpoints, {
    apiVersion: API_VERSION,
    kind: 'WebhookEndpoint',
    metadata: { namespace, name },
    spec: { url: 'https://receiver.example/hook', eventTypes: ['*'] },
  })
  return webhookEndpoint.parse(made)
}

async function read({ metadata }: WebhookEndpoint): Promise<WebhookEndpoint> {
  return webhookEndpoint.parse(await api.get(webhookEndpoints, { namespace, name: metadata.name }))
}

async function disable(endpoint: WebhookEndpoint): Promise<void> {
  directory.apply(endpoint)
  const view = directory.get(namespace, endpoint.metadata.name)
  if (view) await statuses.write(view, () => DISABLED)
}

describe('the status of an endpoint', () => {
  test('is not written to another one that was made under its name', async () => {
    const old = await make()
    const ref = { namespace, name: old.metadata.name }
    await api.delete(webhookEndpoints, ref)
    await make(ref.name)
    await disable(old)
    expect((await read(old)).status).toEqual(old.status)
  })

  test('is no error when the endpoint is gone', async () => {
    const old = await make()
    await api.delete(webhookEndpoints, { namespace, name: old.metadata.name })
    await disable(old)
  })

  test('is written although the endpoint was changed meanwhile', async () => {
    const endpoint = await make()
    const ref = { namespace, name: endpoint.metadata.name }
    await api.patch(webhookEndpoints, ref, { metadata: { annotations: { 'davit.dev/x': '1' } } })
    await disable(endpoint)
    expect((await read(endpoint)).status).toMatchObject(DISABLED)
    expect(directory.get(namespace, ref.name)?.endpoint.status).toMatchObject(DISABLED)
  })
})
