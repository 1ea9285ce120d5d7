/** Delivering again, by annotation (interface §4.2 rule 2; settled, "Events and deliveries"). */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startDavit, type TestDavit } from '../support/davit.ts'
import { driveToAttempt, driveToEnd } from '../support/drive.ts'
import { ownEventType } from '../support/own-event-type.ts'
import { passBy } from '../support/pass-by.ts'
import { type ReceivedRequest, type Receiver, startReceiver } from '../support/receiver.ts'
import { signersOf } from '../support/signers.ts'

const REDELIVER = 'davit.dev/redeliver-requested'
const ABSENT = 'msg_7zzx3mk9q0v1fwhd2tn8rbyc4e'

let davit: TestDavit
let receiver: Receiver

beforeAll(async () => {
  receiver = await startReceiver()
  davit = await startDavit('redelivery')
})

afterAll(async () => {
  await davit?.stop()
  await receiver?.close()
})

/** An endpoint with one event on its way. @returns the event's id */
async function published(
  name: string,
  options: { spec?: Record<string, unknown>; data?: unknown } = {},
): Promise<{ id: string; secret: string; type: string }> {
  const type = await ownEventType(davit)
  const { secret } = await davit.endpoint(name, {
    url: `${receiver.url}/${name}`,
    eventTypes: [type],
    ...options.spec,
  })
  const event = await davit.publish(type, options.data ?? { n: 1 })
  return { id: event.status?.eventId ?? '', secret, type }
}

async function redeliver(name: string, ...ids: string[]): Promise<string> {
  const value = ids.map((id) => `${id}@${davit.time()}`).join(',')
  await davit.annotate(name, { [REDELIVER]: value })
  return value
}

async function handled(name: string, value: string): Promise<void> {
  await davit.endpointWhen(name, ({ status }) => status?.lastHandled?.redeliver === value)
}

function idsOf(requests: readonly ReceivedRequest[]): unknown[] {
  return requests.map(({ headers }) => headers['webhook-id'])
}

test('a success is delivered again: same type and bytes, fresh id and time stamp, and it names the original', async () => {
  const name = 'again'
  const path = `/${name}`
  const data = '{"big":9007199254740993,"z":1.0,"a":"ä€😀"}'
  const { id, secret } = await published(name, { data })
  await receiver.waitFor(1, { path })
  // Over before it is asked for again.
  await driveToEnd(davit, name)
  davit.clock.jump(10_000)
  await handled(name, await redeliver(name, id))
  const [first, second] = await receiver.waitFor(2, { path })
  expect(second?.body).toEqual(first?.body)
  expect(second?.headers['webhook-id']).toMatch(/^msg_[0-9a-z]{26}$/)
  expect(second?.headers['webhook-id']).not.toBe(id)
  expect(Number(second?.headers['webhook-timestamp'])).toBeGreaterThanOrEqual(
    Number(first?.headers['webhook-timestamp']) + 9,
  )
  expect(second && signersOf(second, [secret])).toEqual([0])
  expect((await davit.eventSeen(name, 'Redelivered')).message).toContain(
    String(second?.headers['webhook-id']),
  )
  const deliveries = await driveToEnd(davit, name, 2)
  expect(deliveries.map(({ spec }) => spec.redeliveryOf).filter(Boolean)).toEqual([id])
})

test('what waits for a retry is delivered again beside it, and both go on', async () => {
  const path = '/waits'
  receiver.answer(path, { status: 500 }, { status: 200 })
  const { id } = await published('waits')
  await driveToAttempt(davit, 'waits', 1)
  await redeliver('waits', id)
  await receiver.waitFor(2, { path })
  const ended = await driveToEnd(davit, 'waits', 2)
  expect(ended.map(({ status }) => status?.state)).toEqual(['succeeded', 'succeeded'])
  const [first, again, retry] = idsOf(receiver.received(path))
  expect([first, retry]).toEqual([id, id])
  expect(again).not.toBe(id)
})

test('what was exhausted is delivered again with eight attempts of its own', async () => {
  const path = '/exhausted'
  receiver.answer(path, { status: 500 })
  const { id } = await published('exhausted', { spec: { ordered: true } })
  await driveToEnd(davit, 'exhausted')
  await redeliver('exhausted', id)
  const ended = await driveToEnd(davit, 'exhausted', 2)
  expect(ended.map(({ status }) => [status?.state, status?.attemptCount])).toEqual([
    ['exhausted', 8],
    ['exhausted', 8],
  ])
})

test('what has not been attempted yet is delivered again as well', async () => {
  const path = '/hangs'
  receiver.answer(path, 'hang', { status: 200 })
  const { id } = await published('hangs', { spec: { concurrency: 2 } })
  await receiver.waitFor(1, { path })
  await redeliver('hangs', id)
  const [first, second] = await receiver.waitFor(2, { path })
  expect(second?.body).toEqual(first?.body)
  expect(second?.headers['webhook-id']).not.toBe(id)
})

test('a redelivery can itself be delivered again', async () => {
  const path = '/chain'
  const { id } = await published('chain')
  await receiver.waitFor(1, { path })
  await redeliver('chain', id)
  const [, second] = await receiver.waitFor(2, { path })
  const secondId = String(second?.headers['webhook-id'])
  await redeliver('chain', secondId)
  const [, , third] = await receiver.waitFor(3, { path })
  expect(third?.body).toEqual(second?.body)
  const deliveries = await driveToEnd(davit, 'chain', 3)
  expect(
    deliveries
      .map(({ spec }) => spec.redeliveryOf)
      .filter(Boolean)
      .sort(),
  ).toEqual([id, secondId].sort())
})

test('a body over 16 KiB is delivered again with the same bytes', async () => {
  const path = '/large'
  const { id } = await published('large', { data: { text: 'é'.repeat(20_000) } })
  await receiver.waitFor(1, { path })
  await driveToEnd(davit, 'large')
  await redeliver('large', id)
  const [first, second] = await receiver.waitFor(2, { path })
  expect(first?.body.length).toBeGreaterThan(40_000)
  expect(second?.body.equals(first?.body ?? Buffer.alloc(0))).toBe(true)
})

test('a redelivery goes out whatever the endpoint subscribes to by then', async () => {
  const { id } = await published('unsubscribed')
  await receiver.waitFor(1, { path: '/unsubscribed' })
  await davit.patchSpec('unsubscribed', { eventTypes: [await ownEventType(davit)] })
  await redeliver('unsubscribed', id)
  await receiver.waitFor(2, { path: '/unsubscribed' })
})

test('a list is delivered item by item, and each once, also when the list grows and over a restart', async () => {
  const path = '/list'
  const { id, type } = await published('list')
  const other = (await davit.publish(type, { n: 2 })).status?.eventId ?? ''
  await receiver.waitFor(2, { path })
  const value = await redeliver('list', id, other)
  await handled(`list`, value)
  await receiver.waitFor(4, { path })
  await davit.restart()
  const longer = `${value},${id}@${new Date(davit.clock.now() + 1000).toISOString()}`
  await davit.annotate('list', { [REDELIVER]: longer })
  await handled('list', longer)
  await receiver.waitFor(5, { path })
  await passBy(davit, receiver)
  const requests = receiver.received(path)
  expect(requests).toHaveLength(5)
  expect(new Set(idsOf(requests)).size).toBe(5)
  const bodies = requests.map(({ body }) => (JSON.parse(body.toString()) as { data: { n: number } }).data.n)
  expect(bodies.slice(2).sort()).toEqual([1, 1, 2])
})

describe('nothing is sent', () => {
  test("for an id that this endpoint does not have, or that is another one's", async () => {
    const mine = await published('mine')
    const theirs = await published('theirs')
    await receiver.waitFor(1, { path: '/mine' })
    await receiver.waitFor(1, { path: '/theirs' })
    await handled('mine', await redeliver('mine', theirs.id, ABSENT))
    await passBy(davit, receiver)
    expect(idsOf(receiver.received('/mine'))).toEqual([mine.id])
    expect(receiver.received('/theirs')).toHaveLength(1)
    const told = davit.events.filter(({ about, reason }) => about === 'mine' && reason === 'DeliveryNotFound')
    expect(told.map(({ message }) => [theirs.id, ABSENT].filter((id) => message.includes(id)))).toEqual([
      [theirs.id],
      [ABSENT],
    ])
  })

  test('for items that are no id and time; the others of the list are', async () => {
    const { id } = await published('garbage')
    await receiver.waitFor(1, { path: '/garbage' })
    const value = `nonsense,${id}, ${id}@yesterday ,${id}@2020-01-01T00:00:00Z,${id}@${davit.time()},,../../etc@${davit.time()}`
    await davit.annotate('garbage', { [REDELIVER]: value })
    await handled('garbage', value)
    await receiver.waitFor(2, { path: '/garbage' })
    await passBy(davit, receiver)
    expect(receiver.received('/garbage')).toHaveLength(2)
    const told = davit.events.filter(
      ({ about, reason }) => about === 'garbage' && reason === 'InvalidRequest',
    )
    expect(told).toHaveLength(4)
  })

  test('to a disabled endpoint: an event says so, and enabling it does not send it later', async () => {
    const { id } = await published('off')
    await receiver.waitFor(1, { path: '/off' })
    await davit.patchSpec('off', { state: 'disabled' })
    await davit.endpointWhen('off', ({ status }) => status?.state === 'disabled')
    await handled('off', await redeliver('off', id))
    await davit.eventSeen('off', 'EndpointDisabled')
    await davit.patchSpec('off', { state: 'enabled' })
    await davit.endpointWhen('off', ({ status }) => status?.state === 'enabled')
    await passBy(davit, receiver)
    expect(receiver.received('/off')).toHaveLength(1)
  })
})
