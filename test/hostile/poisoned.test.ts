/**
 * Objects with arbitrary specs, statuses and annotations: no process ends, no other organization waits, and the REST API answers.
 */
import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { sortableName } from '../../src/apis/ids.ts'
import { API_VERSION, resourceType } from '../../src/apis/meta.ts'
import { webhookEndpoints } from '../../src/apis/webhook-endpoint.ts'
import { webhookEvents } from '../../src/apis/webhook-event.ts'
import { isApiError, type RawObject } from '../../src/kube/client.ts'
import { SeededRandom } from '../chaos/seeded-random.ts'
import {
  type Installation,
  OPERATOR_NAMESPACE,
  type ServerProcess,
  startInstallation,
} from '../support/installation.ts'
import { installLooseCrds } from '../support/loose-crds.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import type { RoleProcess } from '../support/role-process.ts'
import { ask } from '../support/server-bed.ts'
import { untilLetIn } from '../support/server-tour.ts'
import { until } from '../support/until.ts'
import { tellFigures } from './figures.ts'
import { GOOD_OBJECTS, type GoodObject, isOfTheLog } from './good-objects.ts'
import { oddly } from './odd-json.ts'
import { seedOfRun } from './seed.ts'

const SEED = seedOfRun(29)
const OBJECTS = Number(process.env.HOSTILE_OBJECTS ?? 180)
/** One good event after this many odd objects. */
const EVENT_EVERY = 6
const CHANGES = 3
const ORGANIZATION = 'acme'
/** Nothing that a spec names may be reached, nor the machine's identity. */
const NO_CLOUD = { AWS_EC2_METADATA_DISABLED: 'true', AWS_ENDPOINT_URL: 'http://127.0.0.1:9' }
const LIMIT_MS = 120_000 + OBJECTS * 200

let davit: Installation
let receiver: Receiver
let controller: RoleProcess
let server: ServerProcess
let key: string

const random = new SeededRandom(SEED)
const stored: Record<string, number> = {}
let refused = 0
let events = 0
let ends = 0

beforeAll(async () => {
  receiver = await startReceiver()
  davit = await startInstallation()
  await davit.makeOrganization(ORGANIZATION)
  await installLooseCrds(davit.controlPlane)
  key = await davit.makeKey(await davit.makeAccount(ORGANIZATION, 'owner', 'davit-owner'))
  await startBoth()
  await untilLetIn({ server, organization: ORGANIZATION, owner: key })
  await davit.api.create(webhookEndpoints, {
    apiVersion: API_VERSION,
    kind: 'WebhookEndpoint',
    metadata: { name: 'good', namespace: ORGANIZATION },
    spec: { url: `${receiver.url}/good`, eventTypes: ['billing.updated'] },
  })
}, 240_000)

afterAll(async () => {
  await davit?.stop()
  await receiver?.close()
})

async function startBoth(): Promise<void> {
  controller = await davit.startController(NO_CLOUD)
  server = await davit.startServer({ settings: NO_CLOUD })
  for (const process of [controller, server.process]) {
    void process.exited.then(() => {
      ends += 1
    })
    await process.untilReady()
  }
}

async function storeOdd({ kind, ...good }: GoodObject): Promise<void> {
  const type = resourceType(kind)
  const name =
    kind.scope === 'Cluster'
      ? `odd.t${sortableName(Date.now(), randomBytes(10))}`
      : sortableName(Date.now(), randomBytes(10))
  const namespace = isOfTheLog(kind) ? OPERATOR_NAMESPACE : ORGANIZATION
  const metadata = { name, ...(type.namespaced ? { namespace } : {}) }
  const annotations = Object.fromEntries(
    Object.entries(good.annotations).map(([key, value]) => [
      key,
      String(oddly(value, random, 1)).slice(0, 1000),
    ]),
  )
  const spec = oddly(good.spec, random, CHANGES)
  const status = oddly(good.status, random, CHANGES)
  try {
    const object = { apiVersion: API_VERSION, kind: kind.kind, metadata: { ...metadata, annotations }, spec }
    await davit.api.create(type, object as RawObject)
    stored[kind.kind] = (stored[kind.kind] ?? 0) + 1
    if (kind.status) await davit.api.patch(type, metadata, { status } as object, { subresource: 'status' })
  } catch (error) {
    // An object that the API server itself rejects is harmless.
    if (!isApiError(error)) throw error
    refused += 1
  }
}

async function publishGood(): Promise<void> {
  await davit.api.create(webhookEvents, {
    apiVersion: API_VERSION,
    kind: 'WebhookEvent',
    metadata: { name: `good-${events}`, namespace: ORGANIZATION },
    spec: { type: 'billing.updated', dataText: `{"n":${events}}` },
  })
  events += 1
}

async function lists(): Promise<number[]> {
  const what = ['webhooks', 'webhooks/event-types', 'webhooks/whe_good/deliveries', 'registry-credentials']
  const paths = what.map((one) => `/organizations/${ORGANIZATION}/${one}`)
  const answers = await Promise.all(paths.map((path) => ask(server, path, { key })))
  return answers.map(({ status }) => status)
}

test(
  'whatever is stored while they run, and is there when they start',
  async () => {
    for (let i = 0; i < OBJECTS; i += 1) {
      const good = GOOD_OBJECTS[i % GOOD_OBJECTS.length]
      if (good) await storeOdd(good)
      if (i % EVENT_EVERY === 0) await publishGood()
    }
    await receiver.waitFor(events, { path: '/good', timeoutMs: LIMIT_MS })
    const answers = await lists()
    const endedByThemselves = ends
    await Promise.all([controller.stop(), server.process.stop()])
    await startBoth()
    await publishGood()
    await receiver.waitFor(events, { path: '/good', timeoutMs: LIMIT_MS })
    await until(
      async () => ((await lists()).every((status) => status === 200) ? true : undefined),
      () => 'lists are not answered',
    )
    const bodies = new Set(receiver.received('/good').map(({ headers }) => headers['webhook-id']))
    const all = Object.values(stored).reduce((sum, one) => sum + one, 0)
    tellFigures('poisoned-objects', {
      seed: SEED,
      'odd objects stored': all,
      'refused by the API server': refused,
      kinds: Object.keys(stored).length,
      'process exits': ends - 2,
      'good events': events,
      'of them received': bodies.size,
      'requests beyond one each': receiver.received('/good').length - bodies.size,
    })
    expect(answers.every((status) => status === 200)).toBe(true)
    expect(endedByThemselves).toBe(0)
    expect(ends).toBe(2)
    expect(bodies.size).toBe(events)
  },
  LIMIT_MS * 2,
)
