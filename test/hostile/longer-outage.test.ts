/**
 * A receiver is unreachable for six hours: longer than the shortest schedule of eight attempts, and much longer than that of an
 * ordered endpoint. Deliveries that ended meanwhile are reported, and can be redelivered; the rest arrives by itself.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { freePort } from '../../playground/free-port.ts'
import type { WebhookDelivery } from '../../src/apis/webhook-delivery.ts'
import { MAX_ATTEMPTS } from '../../src/webhooks/delivery/retry-schedule.ts'
import { startDavit, type TestDavit } from '../support/davit.ts'
import { driveToEnd, inLogOrder, settled } from '../support/drive.ts'
import { type ReceivedRequest, type Receiver, startReceiver } from '../support/receiver.ts'
import { tellFigures } from './figures.ts'

const MINUTE = 60_000
const OUTAGE_MS = 6 * 60 * MINUTE
const EVERY_MS = 20 * MINUTE
const EVENTS = OUTAGE_MS / EVERY_MS
const LIMIT_MS = 600_000
const TYPE = 'billing.updated'
const ENDPOINTS = ['any', 'ordered'] as const

let davit: TestDavit
let receiver: Receiver
let port = 0

beforeAll(async () => {
  davit = await startDavit('longer-outage')
  // A port without a listener for now.
  port = await freePort()
  for (const name of ENDPOINTS)
    await davit.endpoint(name, {
      url: `http://127.0.0.1:${port}/${name}`,
      eventTypes: [TYPE],
      ordered: name === 'ordered',
    })
}, LIMIT_MS)

afterAll(async () => {
  await davit?.stop()
  await receiver?.close()
})

/** Makes attempts at their times until then. */
async function goOnUntil(end: number, count: number): Promise<void> {
  for (;;) {
    const all = (await Promise.all(ENDPOINTS.map((name) => settled(davit, name, count)))).flat()
    const due = all.flatMap(({ status }) => Date.parse(status?.nextAttemptAt ?? '') || [])
    const next = Math.min(end, ...due)
    davit.clock.jump(Math.max(0, next - davit.clock.now()))
    if (next === end) return
  }
}

function idsIn(deliveries: readonly WebhookDelivery[], state: string): string[] {
  return deliveries.filter(({ status }) => status?.state === state).map(({ spec }) => spec.deliveryId)
}

function idsOf(requests: readonly ReceivedRequest[]): unknown[] {
  return requests.map(({ headers }) => headers['webhook-id'])
}

test(
  'after six hours the rest comes, in order where asked, and what ended meanwhile comes when it is asked for',
  async () => {
    const begun = davit.clock.now()
    for (let n = 1; n <= EVENTS; n += 1) {
      await davit.publish(TYPE, { n })
      await goOnUntil(begun + n * EVERY_MS, n)
    }
    const waiting = await Promise.all(ENDPOINTS.map((name) => settled(davit, name, EVENTS)))
    const ended = waiting.map((all) => idsIn(inLogOrder(all), 'exhausted'))
    receiver = await startReceiver({ port })
    const all = await Promise.all(ENDPOINTS.map(async (name) => await driveToEnd(davit, name, EVENTS)))
    const inOrder = all.map((deliveries) => inLogOrder(deliveries))
    const delivered = inOrder.map((deliveries) => idsIn(deliveries, 'succeeded'))
    const taken = ENDPOINTS.map((name) => receiver.received(`/${name}`))
    const attempts = inOrder
      .flat()
      .filter(({ status }) => status?.state === 'exhausted')
      .map(({ status }) => status?.attemptCount)
    // Deliveries that had ended by then, and no others, are exhausted.
    expect(inOrder.map((deliveries) => idsIn(deliveries, 'exhausted'))).toEqual(ended)
    expect(new Set(attempts)).toEqual(new Set([MAX_ATTEMPTS]))
    expect(delivered.map(({ length }, i) => length + (ended[i]?.length ?? 0))).toEqual([EVENTS, EVENTS])
    expect(taken.map((requests) => idsOf(requests).sort())).toEqual(delivered.map((ids) => ids.toSorted()))
    expect(idsOf(taken[1] ?? [])).toEqual(delivered[1])
    await askForEnded(inOrder.map((deliveries) => endedOf(deliveries)))
    tellFigures('longer-outage', {
      hours: OUTAGE_MS / 60 / MINUTE,
      events: EVENTS,
      'delivered afterwards': delivered[0]?.length ?? 0,
      'delivered afterwards in order': delivered[1]?.length ?? 0,
      'ended meanwhile': ended[0]?.length ?? 0,
      'ended meanwhile where order was asked': ended[1]?.length ?? 0,
      'delivered again when asked for': ended.flat().length,
    })
  },
  LIMIT_MS,
)

type Ended = { id: string; n: number }

/** @param deliveries in the order of the log, which is that of the events */
function endedOf(deliveries: readonly WebhookDelivery[]): Ended[] {
  return deliveries.flatMap(({ spec, status }, at) =>
    status?.state === 'exhausted' ? [{ id: spec.deliveryId, n: at + 1 }] : [],
  )
}

/** Redelivered events arrive with the published bytes. */
async function askForEnded(all: readonly (readonly Ended[])[]): Promise<void> {
  for (const [index, name] of ENDPOINTS.entries()) {
    const ended = all[index] ?? []
    // For the other endpoint, jitter may have made each schedule longer, and an earlier one longer than a later one.
    if (name === 'ordered') {
      expect(ended.length).toBeGreaterThan(0)
      expect(ended.map(({ n }) => n)).toEqual(Array.from(ended, (_, at) => at + 1))
    }
    if (ended.length === 0) continue
    const before = receiver.received(`/${name}`).length
    const value = ended.map(({ id }) => `${id}@${davit.time()}`).join(',')
    await davit.annotate(name, { 'davit.dev/redeliver-requested': value })
    const requests = await receiver.waitFor(before + ended.length, { path: `/${name}` })
    const numbers = requests
      .slice(before)
      .map(({ body }) => (JSON.parse(String(body)) as { data: { n: number } }).data.n)
    expect(numbers.toSorted((a, b) => a - b)).toEqual(ended.map(({ n }) => n))
  }
}
