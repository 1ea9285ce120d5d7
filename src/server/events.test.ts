import { afterEach, beforeEach, describe, expect, it, test } from 'vitest'
import {
  ALL,
  BILLING,
  DeliveryIndexBed,
  FAILED,
  idAt,
  nameAt,
  START,
  sent,
} from '../../test/support/delivery-index-bed.ts'
import { settle } from '../../test/support/fake-clock.ts'
import type { AcceptedEvent } from '../apis/delivery-segment.ts'
import { LINES_PER_PAGE } from './delivery-index/queries.ts'
import { EventService } from './events.ts'

const BODY = '{"type":"test.happened","timestamp":"2026-01-31T12:00:00.000Z","data":1.0}'
const NONE = { pending: 0, retrying: 0, succeeded: 0, exhausted: 0, canceled: 0 }

let bed: DeliveryIndexBed
let events: EventService

beforeEach(() => {
  bed = new DeliveryIndexBed(100_000)
  events = new EventService(bed)
})

afterEach(async () => {
  await bed.index.stop()
})

function accepted(
  number: number,
  receivers: number,
  given: Partial<AcceptedEvent['event']> = {},
): AcceptedEvent {
  return {
    event: { id: nameAt(number), namespace: 'org', type: 'test.happened', payload: BODY, ...given },
    targets: Array.from({ length: receivers }, (_, at) => ({ name: `e${at}`, uid: `uid-${at}` })),
  }
}

async function idsOf(query: Partial<Parameters<EventService['list']>[1]> = {}) {
  const ids: string[] = []
  const sizes: number[] = []
  let after: string | undefined
  do {
    const page = await events.list('org', { ...ALL, ...query, after })
    ids.push(...page.events.map(({ eventId }) => eventId))
    sizes.push(page.events.length)
    after = page.next
  } while (after !== undefined)
  return { ids, sizes }
}

const ids = (...numbers: number[]) => numbers.map(idAt)

describe('an event', () => {
  it('is what the log has of it, whether or not it has receivers', async () => {
    const version = bed.api.accept('segment', [accepted(1, 3), accepted(2, 0)])
    bed.api.tell('outcomes', [
      sent(version, 1),
      { kind: 'failed', position: { version, index: 2 }, attempt: FAILED, nextAttemptAt: START },
    ])
    await bed.start()
    const common = { type: 'test.happened', payload: BODY }
    expect(await events.read('org', idAt(1))).toEqual({
      eventId: idAt(1),
      deliveries: 3,
      statuses: { ...NONE, pending: 1, succeeded: 1, retrying: 1 },
      createdAt: '2026-01-31T12:00:01.000Z',
      ...common,
    })
    expect(await events.read('org', idAt(2))).toEqual({
      eventId: idAt(2),
      deliveries: 0,
      statuses: NONE,
      createdAt: '2026-01-31T12:00:02.000Z',
      ...common,
    })
  })

  it('that is a redelivery names the delivery that it repeats', async () => {
    bed.api.accept('segment', [accepted(1, 1, { redeliveryOf: idAt(0) })])
    await bed.start()
    expect(await events.read('org', idAt(1))).toMatchObject({ deliveries: 1, redeliveryOf: idAt(0) })
  })

  it('is there as soon as this process has appended it', async () => {
    await bed.start()
    bed.index.appended({ segment: 'segment', version: 500, firstDelivery: 0 }, [accepted(1, 2)])
    expect((await events.list('org', ALL)).events).toMatchObject([
      { deliveries: 2, statuses: { pending: 2 } },
    ])
  })

  it.each([
    { why: 'of another organization', organization: 'other', number: 1 },
    { why: 'that was never accepted', organization: 'org', number: 99 },
    { why: 'of which only an object is left', organization: 'org', number: 2 },
    { why: 'whose segment has just been deleted', organization: 'org', number: 3 },
  ])('$why is not found', async ({ organization, number }) => {
    bed.api.accept('segment', [accepted(1, 1)])
    bed.api.show(nameAt(2), BILLING.uid, { state: 'exhausted', attemptCount: 8 })
    bed.api.accept('another', [accepted(3, 1)])
    await bed.start()
    bed.api.remove('deliverysegments', 'another', true)
    bed.clock.setWallBy(60_000)
    expect(await events.read(organization, idAt(number))).toBeUndefined()
  })
})

describe('the list of events', () => {
  it('has every event of the log once, newest first, with the states of its deliveries', async () => {
    const version = bed.api.accept('segment-b', [accepted(2, 2), accepted(3, 0)])
    bed.api.accept('segment-a', [accepted(1, 3), accepted(4, 1, { namespace: 'other' })])
    bed.api.tell('outcomes', [sent(version)])
    bed.api.show(nameAt(0), 'uid-0', { state: 'exhausted', attemptCount: 8 })
    await bed.start()
    const { events: found, next } = await events.list('org', ALL)
    expect(next).toBeUndefined()
    expect(found).toEqual([
      {
        eventId: idAt(3),
        type: 'test.happened',
        deliveries: 0,
        statuses: NONE,
        createdAt: '2026-01-31T12:00:03.000Z',
      },
      {
        eventId: idAt(2),
        type: 'test.happened',
        deliveries: 2,
        statuses: { ...NONE, pending: 1, succeeded: 1 },
        createdAt: '2026-01-31T12:00:02.000Z',
      },
      {
        eventId: idAt(1),
        type: 'test.happened',
        deliveries: 3,
        statuses: { ...NONE, pending: 3 },
        createdAt: '2026-01-31T12:00:01.000Z',
      },
    ])
    expect((await events.list('nowhere', ALL)).events).toEqual([])
  })

  it('selects by type and time, on pages of any size', async () => {
    const all = Array.from({ length: 20 }, (_, number) =>
      accepted(number, number % 3, { type: number % 2 === 0 ? 'test.even' : 'test.odd' }),
    )
    bed.api.accept('segment', all)
    await bed.start()
    for (const limit of [1, 3, 50]) {
      expect((await idsOf({ limit })).ids).toEqual(ids(...all.map((_, number) => 19 - number)))
      expect(
        (await idsOf({ limit, type: 'test.odd', since: START + 3000, until: START + 9000 })).ids,
      ).toEqual(ids(7, 5, 3))
      expect((await idsOf({ limit, type: 'test.unknown' })).ids).toEqual([])
    }
  })

  it('goes on behind an event that has gone since', async () => {
    bed.api.accept('old', [accepted(1, 1)])
    bed.api.accept('new', [accepted(2, 2), accepted(3, 1)])
    await bed.start()
    const { next } = await events.list('org', { limit: 1 })
    bed.api.remove('deliverysegments', 'new')
    await settle()
    const page = await events.list('org', { limit: 1, after: next })
    expect(page).toMatchObject({ events: [{ eventId: idAt(1) }] })
    expect(page.next).toBeUndefined()
  })

  it('looks at so many deliveries for a page, and never at a part of those of an event', async () => {
    const receivers = 4000
    const count = LINES_PER_PAGE / receivers + 2
    for (let number = 0; number < count; number += 1)
      bed.api.accept(`segment-${number}`, [
        accepted(number, receivers, { type: number === 0 ? 'test.rare' : 'test.common' }),
      ])
    await bed.start()
    const { events: found, next } = await events.list('org', ALL)
    expect(next).toBeDefined()
    expect(found.map(({ statuses }) => statuses.pending)).toEqual(found.map(() => receivers))
    expect(found.length).toBe(LINES_PER_PAGE / receivers)
    expect((await idsOf({})).ids).toEqual(ids(...Array.from({ length: count }, (_, at) => count - 1 - at)))
    expect((await idsOf({ type: 'test.rare' })).ids).toEqual(ids(0))
  })
})

describe('the payloads of a list', () => {
  it('are there on request only, and read each segment once', async () => {
    bed.api.accept('segment-a', [accepted(1, 2), accepted(2, 0, { payload: '{"data":2}' })])
    bed.api.accept('segment-b', [accepted(3, 1)])
    await bed.start()
    expect((await events.list('org', ALL)).events.map((one) => one.payload)).toEqual([
      undefined,
      undefined,
      undefined,
    ])
    expect(bed.api.gets).toBe(0)
    const { events: found } = await events.list('org', { ...ALL, include: 'payload' })
    expect(found.map((one) => one.payload)).toEqual([BODY, '{"data":2}', BODY])
    expect(bed.api.gets).toBe(2)
  })

  it('end the page at 1 MiB, or at 20 segments, but after one event at the earliest', async () => {
    const large = `"${'x'.repeat(300 * 1024)}"`
    bed.api.accept('large', [
      ...[1, 2, 3, 4].map((number) => accepted(number, 1, { payload: large })),
      accepted(5, 1, { payload: `"${'x'.repeat(2 * 1024 * 1024)}"` }),
    ])
    for (let number = 6; number < 48; number += 1) bed.api.accept(`small-${number}`, [accepted(number, 1)])
    await bed.start()
    const { ids: found, sizes } = await idsOf({ include: 'payload' })
    expect(found).toEqual(ids(...Array.from({ length: 47 }, (_, at) => 47 - at)))
    expect(sizes).toEqual([20, 20, 2, 1, 3, 1])
    expect((await idsOf({})).sizes).toEqual([47])
  })

  it('are absent where the segment has just gone or is damaged, and the others are there', async () => {
    for (const number of [1, 2, 3]) bed.api.accept(`segment-${number}`, [accepted(number, 1)])
    await bed.start()
    bed.api.remove('deliverysegments', 'segment-1', true)
    const damaged = bed.api.kinds.deliverysegments.objects.get('segment-2')
    if (damaged) damaged.spec = { format: 1, events: 7 }
    const { events: found } = await events.list('org', { ...ALL, include: 'payload' })
    expect(found.map((one) => one.payload)).toEqual([BODY, undefined, undefined])
  })
})

test('an event is not read of another organization that shares its segment and its id', async () => {
  const own = accepted(1, 1)
  bed.api.accept('segment', [accepted(1, 1, { namespace: 'other', payload: '"secret"' }), own])
  await bed.start()
  expect(await events.read('org', idAt(1))).toMatchObject({ payload: BODY })
})
