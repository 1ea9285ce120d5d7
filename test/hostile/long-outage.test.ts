/**
 * No receiver is reachable for four hours, then all are. The schedule of eight attempts spans at least 4 h 21 min, if jitter
 * halves every wait, and at most 8 h 42 min.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { freePort } from '../../playground/free-port.ts'
import type { WebhookDelivery } from '../../src/apis/webhook-delivery.ts'
import { isFinal } from '../../src/webhooks/delivery/plan.ts'
import { startDavit, type TestDavit } from '../support/davit.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { tellFigures } from './figures.ts'

const MINUTE = 60_000
const OUTAGE_MS = 4 * 60 * MINUTE
const EVERY_MS = 8 * MINUTE
const EVENTS = OUTAGE_MS / EVERY_MS
const CONCURRENCY = 4
/** Long enough for one more request to arrive, if it were sent. */
const ANSWER_MS = 30
const LIMIT_MS = 180_000

/** All endpoints: the network connection of Davit is down. */
const ENDPOINTS = ['away-0', 'away-1', 'away-2']
const DELIVERIES = ENDPOINTS.length * EVENTS

let davit: TestDavit
let receiver: Receiver
const underWay = new Map<string, number>()
/** Resolved when an endpoint has had as many requests open as it may. */
const full = new Map(ENDPOINTS.map((name) => [name, Promise.withResolvers<void>()]))
let most = 0

let port = 0

beforeAll(async () => {
  davit = await startDavit('long-outage')
  // A port without a listener for now.
  port = await freePort()
  for (const name of ENDPOINTS) {
    const url = `http://127.0.0.1:${port}/${name}`
    await davit.endpoint(name, { url, eventTypes: ['billing.updated'], concurrency: CONCURRENCY })
  }
}, LIMIT_MS)

async function receiveAgain(): Promise<void> {
  receiver = await startReceiver({ port })
  for (const name of ENDPOINTS) receiver.answer(`/${name}`, () => ({ after: answered(name) }))
}

afterAll(async () => {
  await davit?.stop()
  await receiver?.close()
})

/** Answers once as many requests are open as may be, so that one more would be seen. */
async function answered(name: string): Promise<void> {
  const now = (underWay.get(name) ?? 0) + 1
  underWay.set(name, now)
  most = Math.max(most, now)
  if (now >= CONCURRENCY) full.get(name)?.resolve()
  await full.get(name)?.promise
  await sleep(ANSWER_MS)
  underWay.set(name, (underWay.get(name) ?? 0) - 1)
}

/** Waits until all deliveries have failed and wait for a retry, or have ended. */
async function rested(count: number): Promise<WebhookDelivery[]> {
  const isAtRest = ({ status }: WebhookDelivery) =>
    isFinal(status?.state) || Date.parse(status?.nextAttemptAt ?? '') > davit.clock.now()
  const whenAll = (all: WebhookDelivery[]) => all.length >= count && all.every(isAtRest)
  return (await Promise.all(ENDPOINTS.map((name) => davit.deliveriesWhen(name, whenAll, LIMIT_MS)))).flat()
}

test(
  'they get all that was published meanwhile, each once, never more at a time than they asked for, and none is disabled',
  async () => {
    for (let n = 0; n < EVENTS; n += 1) {
      await davit.publish('billing.updated', { n })
      await rested(n + 1)
      davit.clock.jump(EVERY_MS)
    }
    const waiting = await rested(EVENTS)
    const attempts = (all: readonly WebhookDelivery[]) =>
      all.reduce((sum, { status }) => sum + (status?.attemptCount ?? 0), 0)
    const errors = new Set(waiting.flatMap(({ status }) => status?.attempts?.map(({ error }) => error) ?? []))
    await receiveAgain()
    // All of them at once: the longest wait is over.
    davit.clock.jump(
      Math.max(...waiting.map(({ status }) => Date.parse(status?.nextAttemptAt ?? ''))) - davit.clock.now(),
    )
    const all = await rested(EVENTS)
    const taken = receiver.requests
    const keys = new Set(taken.map(({ path, headers }) => `${path} ${headers['webhook-id']}`))
    const endpoints = await Promise.all(ENDPOINTS.map((name) => davit.endpointWhen(name, () => true)))
    tellFigures('long-outage', {
      hours: OUTAGE_MS / 60 / MINUTE,
      endpoints: ENDPOINTS.length,
      deliveries: DELIVERIES,
      delivered: all.filter(({ status }) => status?.state === 'succeeded').length,
      'attempts that failed meanwhile': attempts(waiting),
      'requests beyond one each afterwards': taken.length - keys.size,
      'most attempts of one': Math.max(...all.map(({ status }) => status?.attemptCount ?? 0)),
      'most at a time': most,
      'allowed at a time': CONCURRENCY,
      'endpoints disabled': endpoints.filter(({ status }) => status?.state !== 'enabled').length,
    })
    expect(all.map(({ status }) => status?.state)).toEqual(Array(DELIVERIES).fill('succeeded'))
    expect([...errors]).toEqual(['connection refused'])
    expect(taken).toHaveLength(DELIVERIES)
    expect(most).toBe(CONCURRENCY)
    expect(endpoints.map(({ status }) => status?.state)).toEqual(ENDPOINTS.map(() => 'enabled'))
  },
  LIMIT_MS * 2,
)
