/** The real controller while the clock of its machine is set: waiting deliveries are neither sent all at once nor never. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { eventTypes } from '../../src/apis/event-type.ts'
import { API_VERSION } from '../../src/apis/meta.ts'
import { webhookDeliveries, webhookDelivery } from '../../src/apis/webhook-delivery.ts'
import { webhookEndpoint, webhookEndpoints } from '../../src/apis/webhook-endpoint.ts'
import { webhookEvents } from '../../src/apis/webhook-event.ts'
import { type Installation, startInstallation } from '../support/installation.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import type { RoleProcess } from '../support/role-process.ts'
import { until } from '../support/until.ts'

const ORGANIZATION = 'acme'
const DAY_MS = 86_400_000
const SHIFTED_CLOCK = new URL('../support/shifted-clock.ts', import.meta.url).href
/** A tenth of the documented waits: 1.5 to 3 seconds after the first attempt, 6 to 12 after the second. */
const WAIT_SCALE = '0.1'
const SECOND_WAIT_MS = { shortest: 6000, longest: 12_000 }
/** The eighth attempt is 9 to 18 seconds after the seventh. */
const SHORTEST_WAIT_SCALE = '0.001'
const LONGEST_WAIT_MS = 18_000
/** What a busy machine may add. */
const SLACK_MS = 12_000
const HOUR_MS = 3_600_000
/** What they make of outcomes is more than the first pages of the log. */
const MANY = 100
const FEW = 5
/** What is found open after a start is sent within so long. */
const QUIET_MS = 3000

let davit: Installation
let receiver: Receiver
let controller: RoleProcess
let folder: string
let file: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'davit-clock-'))
  file = join(folder, 'offset')
  await writeFile(file, '0')
  receiver = await startReceiver()
  davit = await startInstallation()
  await davit.makeOrganization(ORGANIZATION)
  controller = await start(WAIT_SCALE)
}, 240_000)

afterAll(async () => {
  await davit?.stop()
  await receiver?.close()
  await rm(folder, { recursive: true, force: true })
})

beforeEach(() => setClockBy(0))

async function start(waitScale: string): Promise<RoleProcess> {
  const started = await davit.startController({
    DAVIT_WAIT_SCALE: waitScale,
    NODE_OPTIONS: `--import=${SHIFTED_CLOCK}`,
    CLOCK_OFFSET_FILE: file,
  })
  await started.untilReady()
  return started
}

/** Against the machine's own time. */
async function setClockBy(ms: number): Promise<void> {
  if ((await readFile(file, 'utf8')) === String(ms)) return
  await writeFile(file, String(ms))
  await until(
    async () => (await readFile(`${file}.seen`, 'utf8').catch(() => '')) === String(ms) || undefined,
    () => 'the controller does not see its clock move',
  )
}

/** An endpoint that answers 500, and an event for it. */
async function failing(name: string): Promise<void> {
  receiver.answer(`/${name}`, { status: 500 })
  await endpoint(name)
  await publish(name)
}

async function endpoint(name: string, more: object = {}): Promise<void> {
  const type = `${name}.happened`
  await davit.api.create(eventTypes, {
    apiVersion: API_VERSION,
    kind: 'EventType',
    metadata: { name: type },
    spec: { description: 'Of this test.' },
  })
  await davit.api.create(webhookEndpoints, {
    apiVersion: API_VERSION,
    kind: 'WebhookEndpoint',
    metadata: { name, namespace: ORGANIZATION },
    spec: { url: `${receiver.url}/${name}`, eventTypes: [type], ...more },
  })
  const ref = { namespace: ORGANIZATION, name }
  await until(
    async () => webhookEndpoint.parse(await davit.api.get(webhookEndpoints, ref)).status?.signingSecrets,
    () => 'the endpoint gets no key',
  )
}

async function publish(to: string, name = to): Promise<void> {
  await davit.api.create(webhookEvents, {
    apiVersion: API_VERSION,
    kind: 'WebhookEvent',
    metadata: { name, namespace: ORGANIZATION },
    spec: { type: `${to}.happened`, dataText: '{}' },
  })
}

/** One after the other, so that each makes segments of its own. */
async function deliver(to: string, count: number): Promise<void> {
  for (let n = 0; n < count; n += 1) {
    const before = receiver.received(`/${to}`).length
    await publish(to, `${to}-${before}`)
    await receiver.waitFor(before + 1, { path: `/${to}` })
  }
}

/** Resolves when so many attempts are stored, so that the next one is waited for. */
async function attempted(endpoint: string, count: number): Promise<void> {
  const query = { namespace: ORGANIZATION, fieldSelector: `spec.endpoint=${endpoint}` }
  let last: unknown
  await until(
    async () => {
      const { items } = await davit.api.list(webhookDeliveries, query)
      last = items[0] && webhookDelivery.parse(items[0]).status
      return (last as { attemptCount?: number } | undefined)?.attemptCount === count || undefined
    },
    () => `the delivery is ${JSON.stringify(last)}`,
  )
}

/** Milliseconds between an attempt and the one after it. */
function waitAfter(endpoint: string, attempt: number): number {
  const [one, next] = receiver.received(`/${endpoint}`).slice(attempt - 1)
  return (next?.receivedAt ?? 0) - (one?.receivedAt ?? 0)
}

test('set back by a day, it keeps nobody waiting for a day', async () => {
  await failing('back')
  await attempted('back', 1)
  await setClockBy(-DAY_MS)
  await receiver.waitFor(2, { path: '/back' })
  await attempted('back', 2)
  await receiver.waitFor(3, { path: '/back' })
  expect(waitAfter('back', 2)).toBeGreaterThan(SECOND_WAIT_MS.shortest - 100)
  expect(waitAfter('back', 2)).toBeLessThan(SECOND_WAIT_MS.longest + SLACK_MS)
})

test('set ahead by a day, it makes no attempt but the next, and mended, it leaves nothing waiting for the day', async () => {
  await failing('ahead')
  await attempted('ahead', 1)
  await setClockBy(DAY_MS)
  await receiver.waitFor(2, { path: '/ahead' })
  await attempted('ahead', 2)
  await setClockBy(0)
  await receiver.waitFor(3, { path: '/ahead' })
  expect(waitAfter('ahead', 2)).toBeGreaterThan(SECOND_WAIT_MS.shortest - 100)
  expect(waitAfter('ahead', 2)).toBeLessThan(SECOND_WAIT_MS.longest + SLACK_MS)
})

test('started again with a clock that is mended, it leaves nothing waiting for the day', async () => {
  await controller.stop()
  controller = await start(SHORTEST_WAIT_SCALE)
  await setClockBy(DAY_MS)
  await failing('restarted')
  await attempted('restarted', 7)
  await controller.kill()
  const attempts = receiver.received('/restarted').length
  await writeFile(file, '0')
  controller = await start(SHORTEST_WAIT_SCALE)
  await receiver.waitFor(attempts + 1, { path: '/restarted', timeoutMs: LONGEST_WAIT_MS + SLACK_MS })
}, 240_000)

/** What was written while the clock was ahead is the first in a list by name for as long as it was ahead. */
test('started again after its clock was ahead, it finds what came since: what has ended, and what has not', async () => {
  // No object says that something was delivered.
  await endpoint('once')
  for (const ahead of [HOUR_MS, HOUR_MS + 120_000]) {
    await setClockBy(ahead)
    await deliver('once', MANY)
  }
  await setClockBy(0)
  await deliver('once', FEW)
  await setTimeout(QUIET_MS)
  receiver.answer('/once', 'hang')
  await deliver('once', FEW)
  await controller.kill()
  receiver.answer('/once', { status: 200 })
  controller = await start(SHORTEST_WAIT_SCALE)
  await receiver.waitFor(2 * MANY + 3 * FEW, { path: '/once' })
  await setTimeout(QUIET_MS)
  const ids = receiver.received('/once').map(({ headers }) => headers['webhook-id'])
  const twice = ids.filter((id, n) => ids.indexOf(id) !== n)
  expect(twice.toSorted()).toEqual(ids.slice(2 * MANY + FEW, 2 * MANY + 2 * FEW).toSorted())
}, 240_000)
