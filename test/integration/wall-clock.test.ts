/** The real controller while somebody sets the clock of its machine: what waits comes neither all at once nor never. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { API_VERSION } from '../../src/api/meta.ts'
import { webhookDeliveries, webhookDelivery } from '../../src/api/webhook-delivery.ts'
import { webhookEndpoint, webhookEndpoints } from '../../src/api/webhook-endpoint.ts'
import { webhookEvents } from '../../src/api/webhook-event.ts'
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
  const type = 'environment.started'
  await davit.api.create(webhookEndpoints, {
    apiVersion: API_VERSION,
    kind: 'WebhookEndpoint',
    metadata: { name, namespace: ORGANIZATION },
    spec: { url: `${receiver.url}/${name}`, eventTypes: [type] },
  })
  const ref = { namespace: ORGANIZATION, name }
  await until(
    async () => webhookEndpoint.parse(await davit.api.get(webhookEndpoints, ref)).status?.signingSecrets,
    () => 'the endpoint gets no key',
  )
  await davit.api.create(webhookEvents, {
    apiVersion: API_VERSION,
    kind: 'WebhookEvent',
    metadata: { name, namespace: ORGANIZATION },
    spec: { type, dataText: '{}' },
  })
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
