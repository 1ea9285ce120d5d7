/** A backup as docs/guides/backup.md says, into an empty cluster: nothing is sent again, and receivers go on verifying. */

import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Webhook } from 'standardwebhooks'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { writeKubeconfig } from '../../playground/api-keys.ts'
import { type ControlPlane, startControlPlane } from '../../playground/control-plane/control-plane.ts'
import { freePort } from '../../playground/free-port.ts'
import { applyInstallation } from '../../playground/installation.ts'
import { API_VERSION } from '../../src/apis/meta.ts'
import { webhookEndpoint, webhookEndpoints } from '../../src/apis/webhook-endpoint.ts'
import { webhookEvent, webhookEvents } from '../../src/apis/webhook-event.ts'
import { connectKubernetes, type KubernetesClient } from '../../src/kube/resources.ts'
import { createClock, createRandom } from '../../src/lib/time.ts'
import { kinds } from '../../tools/docgen/crd.ts'
import { BackupPage } from '../support/backup-page.ts'
import {
  CONTROLLER_ACCOUNT,
  type Installation,
  OPERATOR_NAMESPACE,
  startInstallation,
} from '../support/installation.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { RoleProcess } from '../support/role-process.ts'
import { until } from '../support/until.ts'

const ACME = 'acme'
const TYPE = 'environment.started'
const CONFIG = fileURLToPath(new URL('../../config/', import.meta.url))
const HOUR_MS = 60 * 60_000
const HOOK_LIMIT_MS = 240_000

let receiver: Receiver
let folder: string
let page: BackupPage
let before: Installation
let after: ControlPlane
let api: KubernetesClient
let controller: RoleProcess
/** What was received until the backup, what of it by `down`, and the key of `billing` then. */
let received: number
let failed: number
let key: string

beforeAll(async () => {
  receiver = await startReceiver()
  folder = await mkdtemp(join(tmpdir(), 'davit-restore-'))
  page = await BackupPage.read(folder)
  before = await startInstallation()
  await liveFor()
  await page.pasteBlock(before.controlPlane, '# Back up')
  await deliveriesToo()
  await before.stop()
  await anHourPasses()
  received = receiver.requests.length
  failed = receiver.received('/down').length
  after = await startControlPlane()
  await page.pasteBlock(after, '# Restore')
  await page.pasteBlock(after, '# Restore the status')
  await page.paste(after, 'jq "$bare" deliveries.json | kubectl create -f -', '# Restore')
  await install()
}, HOOK_LIMIT_MS)

afterAll(async () => {
  if (controller?.running) await controller.stop()
  await api?.close()
  await after?.stop()
  await receiver?.close()
  await rm(folder, { recursive: true, force: true })
})

/** One endpoint that takes what it gets, one that fails, and one that was disabled automatically. */
async function liveFor(): Promise<void> {
  await before.makeOrganization(ACME)
  const running = await before.startController()
  await running.untilReady()
  receiver.answer('/down', { status: 500 })
  for (const name of ['billing', 'down', 'off']) await makeEndpoint(before.api, name)
  const disabledAt = new Date().toISOString()
  const state = {
    state: 'disabled',
    disabledReason: 'ConsecutiveFailures',
    disabledAt,
    consecutiveFailures: 5,
  }
  await before.api.patch(
    webhookEndpoints,
    { namespace: ACME, name: 'off' },
    { status: { ...state, failingSince: disabledAt } },
    { subresource: 'status' },
  )
  await publish(before.api, 'first')
  await receiver.waitFor(1, { path: '/billing' })
  await receiver.waitFor(1, { path: '/down' })
  await running.stop()
}

async function makeEndpoint(to: KubernetesClient, name: string): Promise<void> {
  const metadata = { namespace: ACME, name }
  const spec = { url: `${receiver.url}/${name}`, eventTypes: [TYPE] }
  await to.create(webhookEndpoints, { apiVersion: API_VERSION, kind: 'WebhookEndpoint', metadata, spec })
  await endpointWhen(to, name, ({ status }) => status?.signingSecrets !== undefined)
}

function endpointWhen(
  from: KubernetesClient,
  name: string,
  is: (seen: Endpoint) => boolean,
): Promise<Endpoint> {
  return until(
    async () => {
      const seen = webhookEndpoint.parse(await from.get(webhookEndpoints, { namespace: ACME, name }))
      return is(seen) ? seen : undefined
    },
    () => `${name} is not as wanted`,
  )
}
type Endpoint = ReturnType<typeof webhookEndpoint.parse>

async function publish(to: KubernetesClient, name: string): Promise<void> {
  const metadata = { namespace: ACME, name }
  const spec = { type: TYPE, data: { name } }
  await to.create(webhookEvents, { apiVersion: API_VERSION, kind: 'WebhookEvent', metadata, spec })
  await until(
    async () => webhookEvent.parse(await to.get(webhookEvents, metadata)).status?.state,
    () => `${name} is not accepted`,
  )
}

/** Steps that the page leaves out, for users who restore it nevertheless. */
async function deliveriesToo(): Promise<void> {
  await page.paste(
    before.controlPlane,
    'kubectl get webhookdeliveries --all-namespaces -o json > deliveries.json',
  )
}

/** Between the backup and its restore. */
async function anHourPasses(): Promise<void> {
  const hourBefore = (text: string) => new Date(Date.parse(text) - HOUR_MS).toISOString()
  type Keys = { keys: { secret: string; createdAt: string }[]; endpointUid: string }
  const file = join(folder, 'secrets.json')
  const list = JSON.parse(await readFile(file, 'utf8')) as {
    items: { metadata: { name: string }; data: { keys?: string } }[]
  }
  for (const { metadata, data } of list.items) {
    if (data.keys === undefined) continue
    const held = JSON.parse(Buffer.from(data.keys, 'base64').toString()) as Keys
    if (metadata.name === `${ACME}.billing`) key = held.keys[0]?.secret ?? ''
    const keys = held.keys.map((each) => ({ ...each, createdAt: hourBefore(each.createdAt) }))
    data.keys = Buffer.from(JSON.stringify({ ...held, keys })).toString('base64')
  }
  await writeFile(file, JSON.stringify(list))
  const log = await readFile(join(folder, 'deliveries.json'), 'utf8')
  const earlier = log.replaceAll(
    /"writtenAt": ?"([^"]+)"/g,
    (_, at: string) => `"writtenAt": "${hourBefore(at)}"`,
  )
  await writeFile(join(folder, 'deliveries.json'), earlier)
}

async function install(): Promise<void> {
  const { kubeconfigPath, access } = after
  api = await connectKubernetes({ kubeconfigPath, clock: createClock(), random: createRandom() })
  await applyInstallation(api, CONFIG)
  const own = join(folder, 'controller.kubeconfig')
  await writeKubeconfig(own, access, CONTROLLER_ACCOUNT)
  controller = new RoleProcess({
    role: 'controller',
    kubeconfigPath: own,
    namespace: OPERATOR_NAMESPACE,
    replica: 'restored',
    opsPort: await freePort(),
    logPath: join(folder, 'controller.log'),
  })
  await controller.untilReady()
  await endpointWhen(
    api,
    'billing',
    ({ status, metadata }) => status?.observedGeneration === metadata.generation,
  )
}

describe('after a restore into an empty cluster', () => {
  test('nothing is sent again, although deliveries were restored as well, and new events are delivered', async () => {
    await publish(api, 'second')
    await receiver.waitFor(2, { path: '/billing' })
    await receiver.waitFor(failed + 1, { path: '/down' })
    const names = receiver.requests.slice(received).map(({ body }) => JSON.parse(body.toString()).data.name)
    expect(new Set(names)).toEqual(new Set(['second']))
    expect(receiver.received('/billing')).toHaveLength(2)
  })

  test('receivers verify with the keys that they had', () => {
    const { headers, body } = receiver.received('/billing').at(-1) ?? {}
    expect(key).toMatch(/^whsec_/)
    expect(() => new Webhook(key).verify(body ?? '', headers as Record<string, string>)).not.toThrow()
  })

  test('one that was disabled automatically stays so', async () => {
    const { status } = await endpointWhen(api, 'off', () => true)
    expect(status).toMatchObject({ state: 'disabled', disabledReason: 'ConsecutiveFailures' })
    expect(receiver.received('/off')).toEqual([])
  })
})

test('the schedule for Velero has every kind, but those that the page leaves out', () => {
  const [, yaml = ''] = /```yaml\n(apiVersion: velero.*?kind: Schedule.*?)```/s.exec(page.text) ?? []
  const { spec } = parse(yaml) as { spec: { template: { includedResources: string[] } } }
  const included = spec.template.includedResources.filter((name) => name.endsWith('.davit.dev'))
  const left = kinds.filter(({ plural }) => !included.includes(`${plural}.davit.dev`))
  expect(left.map(({ kind }) => kind).sort()).toEqual([
    'DeliverySegment',
    'OutcomeSegment',
    'WebhookDelivery',
    'WebhookEvent',
  ])
  expect(included).toHaveLength(kinds.length - left.length)
})
