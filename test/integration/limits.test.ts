/** Pending deliveries of an organization are limited: events made with kubectl wait, and go on (settled, "Events and deliveries"). */
import { randomBytes } from 'node:crypto'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { webhookEndpoints } from '../../src/apis/webhook-endpoint.ts'
import { startDavit, type TestDavit } from '../support/davit.ts'
import { driveToAttempt, driveToEnd, inLogOrder } from '../support/drive.ts'
import { ownEventType } from '../support/own-event-type.ts'
import { passBy } from '../support/pass-by.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'

const LIMIT = 3

let davit: TestDavit
let receiver: Receiver

beforeAll(async () => {
  receiver = await startReceiver()
})

afterAll(() => receiver?.close())

afterEach(() => davit?.stop())

async function startWith(env: Record<string, string>): Promise<void> {
  davit = await startDavit('limits', { env })
}

/** An endpoint that fails, with as many deliveries as the organization may have. */
async function fill(name: string): Promise<string> {
  const type = await ownEventType(davit)
  receiver.answer(`/${name}`, { status: 503 })
  await davit.endpoint(name, { url: `${receiver.url}/${name}`, eventTypes: [type] })
  for (let n = 0; n < LIMIT; n += 1) await davit.publish(type, { n })
  await driveToAttempt(davit, name, 1, LIMIT)
  return type
}

async function stateOf(event: string): Promise<string | undefined> {
  return (await davit.eventWhen(event, () => true)).status?.state
}

/** Longer than the controller waits until it checks the quota. */
async function lookAgain(): Promise<void> {
  davit.clock.jump(2500)
  await passBy(davit, receiver)
}

describe('deliveries of an organization', () => {
  beforeEach(() => startWith({ DAVIT_MAX_PENDING_PER_ORGANIZATION: String(LIMIT) }))

  test('events wait while the organization has as many deliveries pending as it may, and go on in their order', async () => {
    const type = await fill('full')
    const waiting = [await davit.publishOnly(type, { n: 3 }), await davit.publishOnly(type, { n: 4 })]
    await lookAgain()
    await lookAgain()
    expect(await Promise.all(waiting.map(stateOf))).toEqual([undefined, undefined])
    expect(await davit.deliveries('full')).toHaveLength(LIMIT)
    const { message } = await davit.eventSeen('full', 'TooManyPending')
    expect(message).toContain(
      'this organization has 3 unfinished deliveries, 3 of them for the endpoint full. Fix its receiver, or disable or delete the endpoint.',
    )
    receiver.answer('/full', { status: 200 })
    await driveToEnd(davit, 'full', LIMIT)
    davit.clock.jump(2500)
    for (const event of waiting) await davit.eventWhen(event, ({ status }) => status?.state === 'dispatched')
    const all = await davit.deliveriesWhen('full', ({ length }) => length === LIMIT + waiting.length)
    const deliveries = inLogOrder(all)
    expect(deliveries.map(({ spec }) => JSON.parse(spec.payload ?? '').data.n)).toEqual([0, 1, 2, 3, 4])
  })

  test('events that come together take no more than the room that is left', async () => {
    const type = await ownEventType(davit)
    receiver.answer('/together', { status: 503 })
    await davit.endpoint('together', { url: `${receiver.url}/together`, eventTypes: [type] })
    await davit.controller.stop()
    const events: string[] = []
    for (let n = 0; n < 3 * LIMIT; n += 1) events.push(await davit.publishOnly(type, { n }))
    await davit.startController()
    await davit.eventWhen(events[LIMIT - 1] ?? '', ({ status }) => status?.state !== undefined)
    await driveToAttempt(davit, 'together', 1, LIMIT)
    await lookAgain()
    expect(await davit.deliveries('together')).toHaveLength(LIMIT)
    expect((await Promise.all(events.map(stateOf))).filter((state) => state === undefined)).toHaveLength(
      2 * LIMIT,
    )
  })

  test('what a disabled endpoint holds takes no room, so that the others go on', async () => {
    await fill('held')
    await davit.patchSpec('held', { state: 'disabled' })
    await davit.endpointWhen('held', ({ status }) => status?.state === 'disabled')
    const type = await ownEventType(davit)
    await davit.endpoint('others', { url: `${receiver.url}/others`, eventTypes: [type] })
    const event = await davit.publishOnly(type, {})
    davit.clock.jump(2500)
    await receiver.waitFor(1, { path: '/others' })
    await davit.eventWhen(event, ({ status }) => status?.state === 'dispatched')
    expect((await davit.deliveries('held')).map(({ status }) => status?.state)).toEqual(
      Array(LIMIT).fill('retrying'),
    )
  })

  test('an event that goes to more endpoints than there is room for is accepted while there is any room', async () => {
    const type = await ownEventType(davit)
    for (let n = 0; n < LIMIT + 2; n += 1)
      await davit.endpoint(`wide-${n}`, { url: `${receiver.url}/wide-${n}`, eventTypes: [type] })
    const event = await davit.publish(type, {})
    expect(event.status?.deliveries).toBe(LIMIT + 2)
    for (let n = 0; n < LIMIT + 2; n += 1) await receiver.waitFor(1, { path: `/wide-${n}` })
  })

  test('redeliveries wait as well, keep their order, and are made once there is room; pings are made', async () => {
    await fill('asked')
    await passBy(davit, receiver)
    const deliveries = inLogOrder(await davit.deliveries('asked'))
    const time = davit.time()
    const list = deliveries.map(({ spec }) => `${spec.deliveryId}@${time}`)
    await davit.annotate('asked', {
      'davit.dev/redeliver-requested': ['msg_invalid', ...list].join(','),
      'davit.dev/ping-requested-at': time,
    })
    await davit.eventSeen('asked', 'Pinged')
    const { message } = await davit.eventSeen('asked', 'TooManyPending')
    expect(message).toMatch(/^Requested redeliveries are also waiting\. Publishing is paused/)
    await lookAgain()
    const { status } = await davit.endpointWhen('asked', ({ status }) => status?.lastHandled?.ping === time)
    expect(status?.lastHandled?.redeliver).toBe('msg_invalid')
    expect(await davit.deliveries('asked')).toHaveLength(LIMIT + 1)
    receiver.answer('/asked', { status: 200 })
    await driveToEnd(davit, 'asked', LIMIT + 1)
    davit.clock.jump(10_000)
    const all = await davit.deliveriesWhen('asked', ({ length }) => length === 2 * LIMIT + 1)
    const repeats = inLogOrder(all).flatMap(({ spec }) => spec.redeliveryOf ?? [])
    expect(repeats).toEqual(deliveries.map(({ spec }) => spec.deliveryId))
    await davit.endpointWhen(
      'asked',
      ({ status }) => status?.lastHandled?.redeliver?.includes(list[2] ?? '-') === true,
    )
  })
})

describe('what all organizations share', () => {
  test('is not used up by one of them: a reserve stays', async () => {
    await startWith({ DAVIT_MAX_PENDING: '10', DAVIT_MAX_PENDING_PER_ORGANIZATION: '10' })
    const type = await ownEventType(davit)
    receiver.answer('/reserve', { status: 503 })
    await davit.endpoint('reserve', { url: `${receiver.url}/reserve`, eventTypes: [type] })
    for (let n = 0; n < 9; n += 1) await davit.publish(type, { n })
    const tenth = await davit.publishOnly(type, {})
    await lookAgain()
    expect(await stateOf(tenth)).toBeUndefined()
    await davit.eventSeen('reserve', 'TooManyPending')
  })
})

describe('bytes', () => {
  const MIB = '1048576'

  test('of deliveries that have not ended are limited, and new events wait until some are let go', async () => {
    await startWith({ DAVIT_MAX_OPEN_BYTES_PER_ORGANIZATION: MIB })
    const type = await ownEventType(davit)
    receiver.answer('/hoard', { status: 503 })
    await davit.endpoint('hoard', { url: `${receiver.url}/hoard`, eventTypes: [type] })
    for (let n = 0; n < 66; n += 1) await davit.publishOnly(type, { n, text: 'x'.repeat(16_000) })
    await driveToAttempt(davit, 'hoard', 1, 66)
    await davit.patchSpec('hoard', { state: 'disabled' })
    await davit.endpointWhen('hoard', ({ status }) => status?.state === 'disabled')
    const other = await ownEventType(davit)
    const event = await davit.publishOnly(other, {})
    await lookAgain()
    expect(await stateOf(event)).toBeUndefined()
    const { message } = await davit.eventSeen('hoard', 'TooManyUnfinishedBytes')
    expect(message).toContain(
      'the endpoint hoard has the largest share. Fix its receiver, and enable the endpoint if it is disabled. Or delete the endpoint.',
    )
    await davit.api.delete(webhookEndpoints, { namespace: davit.organization, name: 'hoard' })
    davit.clock.jump(2500)
    await davit.eventWhen(event, ({ status }) => status?.state === 'dispatched')
  })

  test('of redeliveries count too, so that an annotation passes no limit', async () => {
    await startWith({ DAVIT_MAX_OPEN_BYTES_PER_ORGANIZATION: MIB })
    const type = await ownEventType(davit)
    await davit.endpoint('again', { url: `${receiver.url}/again`, eventTypes: [type] })
    const { status } = await davit.publish(type, { text: 'x'.repeat(200_000) })
    const id = status?.eventId
    await receiver.waitFor(1, { path: '/again' })
    receiver.answer('/again', { status: 503 })
    const start = Date.parse(davit.time())
    const times = Array.from({ length: 40 }, (_, n) => new Date(start + n).toISOString())
    await davit.annotate('again', {
      'davit.dev/redeliver-requested': times.map((time) => `${id}@${time}`).join(','),
    })
    await davit.eventSeen('again', 'TooManyUnfinishedBytes')
    const waiting = await davit.deliveries('again')
    expect(waiting.length).toBeLessThan(20)
  })

  test('written in ten minutes are limited, and events wait until those have passed', async () => {
    await startWith({
      DAVIT_MAX_WRITTEN_BYTES: MIB,
      DAVIT_MAX_WRITTEN_BYTES_PER_ORGANIZATION: MIB,
    })
    const type = await ownEventType(davit)
    await davit.endpoint('bulk', { url: `${receiver.url}/bulk`, eventTypes: [type] })
    // What cannot be compressed is written as it is.
    const text = randomBytes(195_000).toString('base64')
    for (let n = 0; n < 4; n += 1) await davit.publish(type, { n, text })
    await driveToEnd(davit, 'bulk', 4)
    const event = await davit.publishOnly(type, { n: 4 })
    await lookAgain()
    expect(await stateOf(event)).toBeUndefined()
    davit.clock.jump(10 * 60_000)
    await davit.eventWhen(event, ({ status }) => status?.state === 'dispatched')
    expect(receiver.received('/bulk')).toHaveLength(5)
  })
})
