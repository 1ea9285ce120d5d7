/** CRDs that are older or newer than the code, at its start and replaced while it runs: no process ends, and events arrive. */

import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { API_VERSION } from '../../src/apis/meta.ts'
import { webhookEndpoints } from '../../src/apis/webhook-endpoint.ts'
import { webhookEvents } from '../../src/apis/webhook-event.ts'
import type { RawObject } from '../../src/kube/client.ts'
import { readRequestCounts, requestsBetween, sumOf, writesOf } from '../bench/measure/api-requests.ts'
import { SeededRandom } from '../chaos/seeded-random.ts'
import { type Installation, startInstallation } from '../support/installation.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import type { RoleProcess } from '../support/role-process.ts'
import { tellFigures } from './figures.ts'
import { installShipped, installVersion, NEWER, older, type Version } from './other-crds.ts'
import { seedOfRun } from './seed.ts'

const SEED = seedOfRun(7)
/** Share of the optional fields. */
const SHARE = 0.3
const EVENTS = 10
const LOOK_MS = 5000
/** Lease renewals and the like; a loop that cannot store its result makes hundreds. */
const MOST_WRITES_AT_REST = 20
const LIMIT_MS = 240_000

const random = new SeededRandom(SEED)
const figures: Record<string, number> = {}
let davit: Installation
let receiver: Receiver
let controller: RoleProcess
let ends = 0
let made = 0

beforeAll(async () => {
  receiver = await startReceiver()
  davit = await startInstallation()
  await davit.makeOrganization('acme')
}, LIMIT_MS)

afterAll(async () => {
  tellFigures('other-crds', { seed: SEED, ...figures })
  await davit?.stop()
  await receiver?.close()
})

async function start(): Promise<void> {
  controller = await davit.startController()
  void controller.exited.then(() => {
    ends += 1
  })
  await controller.untilReady()
}

async function make(kind: string, type: typeof webhookEvents, name: string, spec: object): Promise<void> {
  const metadata = { name, namespace: 'acme' }
  await davit.api.create(type, { apiVersion: API_VERSION, kind, metadata, spec } as RawObject)
}

/** @returns how many events arrived at the endpoint, and how many requests that took */
async function deliver(endpoint: string): Promise<{ received: number; requests: number }> {
  const path = `/${endpoint}`
  for (let i = 0; i < EVENTS; i += 1) {
    made += 1
    await make('WebhookEvent', webhookEvents, `event-${made}`, {
      type: 'billing.updated',
      dataText: `{"n":${made}}`,
    })
  }
  await receiver.waitFor(EVENTS, { path, timeoutMs: 60_000 })
  const requests = receiver.received(path)
  return {
    received: new Set(requests.map(({ headers }) => headers['webhook-id'])).size,
    requests: requests.length,
  }
}

/** Number of writes by all clients in a period without work. */
async function writesAtRest(): Promise<number> {
  await sleep(LOOK_MS)
  const before = await readRequestCounts(davit.controlPlane.access)
  await sleep(LOOK_MS)
  const after = await readRequestCounts(davit.controlPlane.access)
  return sumOf(writesOf(requestsBetween(before, after)))
}

const VERSIONS: Version[] = [older(random, SHARE), NEWER]

test.for(VERSIONS)(
  '$name, from the start and then exchanged for those that ship',
  { timeout: LIMIT_MS },
  async (version) => {
    await installVersion(davit.controlPlane, version)
    await start()
    const before = `before-${version.name}`
    await make('WebhookEndpoint', webhookEndpoints, before, {
      url: `${receiver.url}/${before}`,
      eventTypes: ['billing.updated'],
    })
    const first = await deliver(before)
    const writes = await writesAtRest()
    await installShipped(davit.controlPlane)
    await davit.api.delete(webhookEndpoints, { namespace: 'acme', name: before })
    const after = `after-${version.name}`
    await make('WebhookEndpoint', webhookEndpoints, after, {
      url: `${receiver.url}/${after}`,
      eventTypes: ['billing.updated'],
    })
    const second = await deliver(after)
    await davit.api.delete(webhookEndpoints, { namespace: 'acme', name: after })
    const ended = ends
    await controller.stop()
    ends = 0
    Object.assign(figures, {
      [`${version.name}: events`]: 2 * EVENTS,
      [`${version.name}: received`]: first.received + second.received,
      [`${version.name}: requests`]: first.requests + second.requests,
      [`${version.name}: process exits`]: ended,
      [`${version.name}: writes in 5 s at rest`]: writes,
    })
    expect(ended).toBe(0)
    expect(first.received + second.received).toBe(2 * EVENTS)
    expect(writes).toBeLessThan(MOST_WRITES_AT_REST)
  },
)
