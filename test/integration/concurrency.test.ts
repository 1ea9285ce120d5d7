/** Unordered endpoints: how many deliveries run at a time, and that an endpoint never waits for the receiver of another one. */
import { setTimeout } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startDavit, type TestDavit } from '../support/davit.ts'
import { ownEventType } from '../support/own-event-type.ts'
import { type ReceivedRequest, type Receiver, startReceiver } from '../support/receiver.ts'

let davit: TestDavit
let receiver: Receiver

beforeAll(async () => {
  receiver = await startReceiver()
  davit = await startDavit('concurrency')
})

afterAll(async () => {
  await davit?.stop()
  await receiver?.close()
})

const ANSWER_MS = 400
/** More than half of what an attempt may take. */
const LONG_ANSWER_MS = 11_000
/** How long a receiver takes that has 60 of them to answer in turn. */
const TURN_MS = 40
/** Timers may end a little early. */
const SURELY_MS = ANSWER_MS - 20

/** Publishes so many events to a new endpoint whose receiver takes its time. @returns the requests */
async function loaded(
  name: string,
  spec: Record<string, unknown>,
  count: number,
): Promise<ReceivedRequest[]> {
  const type = await ownEventType(davit)
  const path = `/${name}`
  receiver.answer(path, { delayMs: ANSWER_MS })
  await davit.endpoint(name, { url: receiver.url + path, eventTypes: [type], ...spec })
  await Promise.all(Array.from({ length: count }, (_, n) => davit.publishOnly(type, { n })))
  return await receiver.waitFor(count, { path })
}

/** The most requests of which none was answered before the last of them came. */
function mostAtATime(requests: readonly ReceivedRequest[]): number {
  const counts = requests.map(
    (request) =>
      requests.filter(
        ({ receivedAt }) => receivedAt <= request.receivedAt && receivedAt > request.receivedAt - SURELY_MS,
      ).length,
  )
  return Math.max(...counts)
}

test('up to spec.concurrency deliveries of an endpoint are under way at a time, never more', async () => {
  expect(mostAtATime(await loaded('three', { concurrency: 3 }, 9))).toBe(3)
})

test('eight at a time is what an endpoint has that says nothing', async () => {
  expect(mostAtATime(await loaded('standard', {}, 20))).toBe(8)
})

test('an endpoint that hangs does not slow another one', async () => {
  const hanging = await ownEventType(davit)
  const good = await ownEventType(davit)
  receiver.answer('/hangs', 'hang')
  await davit.endpoint('hangs', {
    url: `${receiver.url}/hangs`,
    eventTypes: [hanging, good],
    concurrency: 32,
  })
  await davit.endpoint('good', { url: `${receiver.url}/good`, eventTypes: [good] })
  for (let n = 0; n < 40; n += 1) await davit.publishOnly(hanging, { n })
  await receiver.waitFor(32, { path: '/hangs' })
  for (let n = 0; n < 30; n += 1) await davit.publishOnly(good, { n })
  await receiver.waitFor(30, { path: '/good' })
  const delivered = await davit.deliveriesWhen(
    'good',
    (all) => all.length === 30 && all.every(({ status }) => status?.state === 'succeeded'),
  )
  expect(delivered.map(({ status }) => status?.attemptCount)).toEqual(delivered.map(() => 1))
  // All of those that hang still do.
  const stuck = await davit.deliveries('hangs')
  expect(stuck.filter(({ status }) => (status?.attemptCount ?? 0) > 0)).toEqual([])
  expect(receiver.received('/hangs')).toHaveLength(32)
})

test('with one attempt at a time for all, endpoints take turns', async () => {
  const narrow = await startDavit('turns', { env: { DAVIT_MAX_IN_FLIGHT: '1' } })
  try {
    const busy = await ownEventType(narrow)
    const quiet = await ownEventType(narrow)
    // The first attempt keeps the only place until all is published, however slow the machine is.
    const published = Promise.withResolvers<void>()
    const open = { now: 0, most: 0 }
    /** Not yet answered from when it came. */
    const during = (until: Promise<unknown>) => {
      open.now += 1
      open.most = Math.max(open.most, open.now)
      const after = until.then(() => {
        open.now -= 1
      })
      return { after }
    }
    receiver.answer(
      '/busy',
      () => during(published.promise),
      () => during(setTimeout(TURN_MS)),
    )
    await narrow.endpoint('busy', { url: `${receiver.url}/busy`, eventTypes: [busy] })
    await narrow.endpoint('quiet', { url: `${receiver.url}/quiet`, eventTypes: [quiet] })
    await Promise.all(Array.from({ length: 60 }, (_, n) => narrow.publishOnly(busy, { n })))
    await receiver.waitFor(1, { path: '/busy' })
    await Promise.all(Array.from({ length: 3 }, (_, n) => narrow.publish(quiet, { n })))
    published.resolve()
    await receiver.waitFor(3, { path: '/quiet' })
    expect(receiver.received('/busy').length).toBeLessThan(60)
    await receiver.waitFor(60, { path: '/busy' })
    expect(open.most).toBe(1)
  } finally {
    await narrow.stop()
  }
})

test('waiting for a place among other attempts is not part of the 20 seconds', async () => {
  const narrow = await startDavit('places', { env: { DAVIT_MAX_IN_FLIGHT: '1' } })
  try {
    const type = await ownEventType(narrow)
    // Two of them together take longer than one may.
    for (const name of ['first', 'second']) {
      receiver.answer(`/place-${name}`, { delayMs: LONG_ANSWER_MS })
      await narrow.endpoint(name, { url: `${receiver.url}/place-${name}`, eventTypes: [type] })
    }
    await narrow.publish(type, {})
    const ended = await Promise.all(
      ['first', 'second'].map((name) =>
        narrow.deliveriesWhen(
          name,
          ([delivery]) => (delivery?.status?.attemptCount ?? 0) > 0,
          3 * LONG_ANSWER_MS,
        ),
      ),
    )
    expect(ended.flat().map(({ status }) => status)).toMatchObject([
      { state: 'succeeded', attemptCount: 1 },
      { state: 'succeeded', attemptCount: 1 },
    ])
    const times = ['first', 'second'].map((name) => receiver.received(`/place-${name}`)[0]?.receivedAt ?? 0)
    expect(Math.abs((times[0] ?? 0) - (times[1] ?? 0))).toBeGreaterThan(LONG_ANSWER_MS - 20)
  } finally {
    await narrow.stop()
  }
})
