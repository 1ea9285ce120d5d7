/** When a failed delivery is attempted again, and when it is given up (interface §3.2, §8). */
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { WebhookDelivery } from '../../src/apis/webhook-delivery.ts'
import { startDavit, type TestDavit } from '../support/davit.ts'
import { driveToAttempt, driveToEnd, jumpToNext } from '../support/drive.ts'
import { ownEventType } from '../support/own-event-type.ts'
import { passBy } from '../support/pass-by.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { signersOf } from '../support/signers.ts'

const SECOND = 1000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE
/** Interface §8, in its words: 30 s, 2 m, 10 m, 30 m, 1 h, 2 h, 5 h; each jittered down by up to half. */
const WAITS = [30 * SECOND, 2 * MINUTE, 10 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 5 * HOUR]

let davit: TestDavit
let receiver: Receiver

beforeAll(async () => {
  receiver = await startReceiver()
  davit = await startDavit('schedule')
})

afterAll(async () => {
  await davit?.stop()
  await receiver?.close()
})

/** From the end of the attempt made last to the next one, in milliseconds. */
function waitOf({ status }: WebhookDelivery): number {
  const last = status?.attempts?.at(-1)
  return Date.parse(status?.nextAttemptAt ?? '') - Date.parse(last?.at ?? '') - (last?.latencyMs ?? 0)
}

test('a delivery is attempted eight times after the documented waits, and is exhausted after the eighth', async () => {
  const path = '/eight'
  const type = await ownEventType(davit)
  receiver.answer(path, { status: 500 })
  const { secret } = await davit.endpoint('eight', { url: receiver.url + path, eventTypes: [type] })
  await davit.publish(type, { n: 1 })
  const began = davit.clock.now()
  for (const [index, wait] of WAITS.entries()) {
    const [delivery] = await driveToAttempt(davit, 'eight', index + 1)
    if (!delivery) throw new Error('there is no delivery')
    expect(delivery.status).toMatchObject({ state: 'retrying', attemptCount: index + 1 })
    // Latencies are rounded to milliseconds.
    expect(waitOf(delivery)).toBeGreaterThanOrEqual(wait / 2 - 1)
    expect(waitOf(delivery)).toBeLessThanOrEqual(wait + 5)
    if (index === 0) {
      jumpToNext(davit, [delivery], 5 * SECOND)
      await passBy(davit, receiver)
      expect(receiver.received(path)).toHaveLength(1)
    }
  }
  const [ended] = await driveToEnd(davit, 'eight')
  expect(ended?.status).toMatchObject({
    state: 'exhausted',
    attemptCount: 8,
    completedAt: expect.any(String),
  })
  expect(ended?.status?.nextAttemptAt).toBeUndefined()
  const hours = (davit.clock.now() - began) / HOUR
  expect(hours).toBeGreaterThan(4)
  expect(hours).toBeLessThan(9)

  davit.clock.jump(48 * HOUR)
  await passBy(davit, receiver)
  const requests = receiver.received(path)
  expect(requests).toHaveLength(8)
  expect(new Set(requests.map(({ headers }) => headers['webhook-id']))).toEqual(
    new Set([ended?.spec.deliveryId]),
  )
  expect(new Set(requests.map(({ body }) => body.toString()))).toHaveProperty('size', 1)
  const stamps = requests.map(({ headers }) => Number(headers['webhook-timestamp']))
  expect(stamps).toEqual(ended?.status?.attempts?.map(({ at }) => Math.floor(Date.parse(at) / 1000)))
  expect(requests.map((request) => signersOf(request, [secret]))).toEqual(requests.map(() => [0]))
})

test('the waits of many deliveries spread over the whole upper half of the documented wait', async () => {
  const type = await ownEventType(davit)
  receiver.answer('/spread', { status: 500 })
  await davit.endpoint('spread', { url: `${receiver.url}/spread`, eventTypes: [type], concurrency: 32 })
  for (let n = 0; n < 40; n += 1) await davit.publishOnly(type, { n })
  const waits = (await driveToAttempt(davit, 'spread', 1, 40)).map((delivery) => waitOf(delivery))
  expect(Math.min(...waits)).toBeGreaterThanOrEqual(15 * SECOND - 1)
  expect(Math.max(...waits)).toBeLessThanOrEqual(30 * SECOND + 5)
  // Forty draws all in one half: less than once in 10^11 runs.
  expect(Math.min(...waits)).toBeLessThan(22.5 * SECOND)
  expect(Math.max(...waits)).toBeGreaterThan(22.5 * SECOND)
})

test('an ordered endpoint is tried every three minutes from start to start, and exhausted after roughly twenty', async () => {
  const type = await ownEventType(davit)
  receiver.answer('/cadence', { status: 503, delayMs: 40 })
  await davit.endpoint('cadence', { url: `${receiver.url}/cadence`, eventTypes: [type], ordered: true })
  await davit.publish(type, {})
  for (let made = 1; made < 8; made += 1) {
    const [delivery] = await driveToAttempt(davit, 'cadence', made)
    const { attempts = [], nextAttemptAt = '' } = delivery?.status ?? {}
    expect(Date.parse(nextAttemptAt) - Date.parse(attempts.at(-1)?.at ?? '')).toBe(3 * MINUTE)
  }
  const [ended] = await driveToEnd(davit, 'cadence')
  expect(ended?.status).toMatchObject({ state: 'exhausted', attemptCount: 8 })
  const starts = ended?.status?.attempts?.map(({ at }) => Date.parse(at)) ?? []
  const minutes = ((starts.at(-1) ?? 0) - (starts[0] ?? 0)) / MINUTE
  expect(minutes).toBeGreaterThanOrEqual(21)
  expect(minutes).toBeLessThan(23)
})

test('a retry that is answered with 2xx is the last attempt', async () => {
  const path = '/mended'
  const type = await ownEventType(davit)
  receiver.answer(path, { status: 500 }, { status: 404 }, { status: 204 })
  await davit.endpoint('mended', { url: receiver.url + path, eventTypes: [type] })
  await davit.publish(type, {})
  const [ended] = await driveToEnd(davit, 'mended')
  expect(ended?.status).toMatchObject({ state: 'succeeded', attemptCount: 3 })
  davit.clock.jump(48 * HOUR)
  await passBy(davit, receiver)
  expect(receiver.received(path)).toHaveLength(3)
})

test('without order a failed event arrives after later ones', async () => {
  const path = '/late'
  const type = await ownEventType(davit)
  receiver.answer(path, { status: 500 }, { status: 200 })
  await davit.endpoint('late', { url: receiver.url + path, eventTypes: [type] })
  const first = await davit.publish(type, { n: 1 })
  await receiver.waitFor(1, { path })
  const second = await davit.publish(type, { n: 2 })
  await receiver.waitFor(2, { path })
  await driveToEnd(davit, 'late', 2)
  expect(receiver.received(path).map(({ headers }) => headers['webhook-id'])).toEqual([
    first.status?.eventId,
    second.status?.eventId,
    first.status?.eventId,
  ])
})
