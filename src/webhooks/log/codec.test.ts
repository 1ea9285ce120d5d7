import { describe, expect, test } from 'vitest'
import { fc } from '../../../test/support/fast-check.ts'
import {
  type AcceptedEvent,
  type DeliveryTarget,
  deliverySegmentSpec,
  MAX_SEGMENT_BYTES,
  MAX_SEGMENT_DELIVERIES,
  readDeliverySegment,
  type SegmentEvent,
} from '../../apis/delivery-segment.ts'
import { decodeDeliveries, planSegments, segmentLines, segmentSpec, sizeOf, webhookPayload } from './codec.ts'

const UID = '0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0'
const NAME = '7yem9rzjg00000000000000000'

function event(over: Partial<SegmentEvent> = {}): SegmentEvent {
  return { id: NAME, namespace: 'acme', type: 'environment.started', payload: '{"data":1}', ...over }
}

function targets(count: number, prefix = 'endpoint'): DeliveryTarget[] {
  return Array.from({ length: count }, (_, i) => ({ name: `${prefix}-${i}`, uid: UID }))
}

const target = fc.record({ name: fc.stringMatching(/^[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?$/), uid: fc.uuid() })
const accepted: fc.Arbitrary<AcceptedEvent> = fc.record({
  event: fc
    .record({ data: fc.json(), type: fc.constantFrom('a.b', 'environment.started') })
    .map(({ data, type }) => event({ type, payload: webhookPayload(type, 0, data) })),
  targets: fc.array(target, { maxLength: 6 }),
})

describe('a segment', () => {
  test('holds the events in their order and a line for each of their deliveries', () => {
    const first = { event: event({ id: '7yem9rzjg00000000000000001' }), targets: targets(2, 'a') }
    const second = { event: event({ id: '7yem9rzjg00000000000000002' }), targets: [] }
    const third = { event: event({ id: '7yem9rzjg00000000000000003' }), targets: targets(1, 'b') }
    expect(segmentSpec([first, second, third], 'davit-0', 1000)).toEqual({
      format: 1,
      writtenAt: 1000,
      writer: 'davit-0',
      events: [first, second, third].map(
        ({ event: { id } }) => `${id} acme environment.started - - {"data":1}`,
      ),
      deliveries: [`0 a-0 ${UID}`, `0 a-1 ${UID}`, `2 b-0 ${UID}`].join('\n'),
    })
  })

  test('gives back every delivery that was put in, in order, with its place', () => {
    fc.assert(
      fc.property(fc.array(accepted, { minLength: 1, maxLength: 20 }), (given) => {
        const spec = segmentSpec(given, 'davit-0', 1000)
        expect(deliverySegmentSpec.safeParse(spec).success).toBe(true)
        const logged = given.map(({ event: { payload, ...event }, targets }, eventIndex) => ({
          eventIndex,
          event: { ...event, bodyBytes: Buffer.byteLength(payload), receivers: targets.length },
        }))
        const want = logged.flatMap((event, at) =>
          given[at]?.targets.map((endpoint) => ({ ...event, endpoint })),
        )
        const undelivered = logged.filter(({ event }) => event.receivers === 0)
        const stored = readDeliverySegment({
          metadata: { name: 's', resourceVersion: '7' },
          spec: JSON.parse(JSON.stringify(spec)),
        })
        expect(decodeDeliveries(stored.spec)).toEqual({
          deliveries: want.map((delivery, index) => ({ index, ...delivery })),
          bodies: given.map(({ event }) => event.payload),
          unreadable: 0,
          ...(undelivered.length > 0 ? { undelivered } : {}),
        })
      }),
    )
  })

  test.each([
    { given: `1 billing ${UID}`, why: 'an event that is not there' },
    { given: `-1 billing ${UID}`, why: 'a negative index' },
    { given: `0.5 billing ${UID}`, why: 'half an index' },
    { given: `first billing ${UID}`, why: 'a word for an index' },
    { given: '0 billing', why: 'no UID' },
    { given: '0', why: 'an index alone' },
    { given: '', why: 'nothing' },
    { given: ' billing x', why: 'an empty index' },
    { given: '0x0 billing x', why: 'an index in another notation' },
    { given: '0  x', why: 'no name' },
    { given: '0 billing x y', why: 'one part too many' },
    { given: 'constructor billing x', why: 'the name of a property' },
    { given: 'length billing x', why: 'the name of another property' },
  ])('leaves out a line with $why and keeps the places of the others', ({ given }) => {
    const spec = segmentLines([{ event: event(), targets: targets(2) }])
    const [first, second] = spec.deliveries.split('\n')
    spec.deliveries = [first, given, second].join('\n')
    expect(decodeDeliveries(spec).deliveries.map(({ index, endpoint }) => [index, endpoint.name])).toEqual([
      [0, 'endpoint-0'],
      [2, 'endpoint-1'],
    ])
  })
})

type Append = { number: number; events: AcceptedEvent[] }

/** Appends of a few organizations, some of them busy, with events from tiny to larger than a segment. */
const appends: fc.Arbitrary<Append[]> = fc
  .array(
    fc.record({
      namespace: fc.constantFrom('acme', 'acme', 'acme', 'globex', 'initech'),
      events: fc.array(
        fc.record({
          text: fc.constantFrom('x', '"', '\\', '\n', 'é', '😀', '\ud800', '{"a":""},'),
          bytes: fc.oneof(
            { weight: 6, arbitrary: fc.integer({ min: 2, max: 2000 }) },
            { weight: 2, arbitrary: fc.integer({ min: 2000, max: 120_000 }) },
            { weight: 1, arbitrary: fc.integer({ min: 200_000, max: 262_144 }) },
          ),
          fanOut: fc.oneof(
            { weight: 8, arbitrary: fc.integer({ min: 0, max: 5 }) },
            { weight: 1, arbitrary: fc.integer({ min: 300, max: 5000 }) },
          ),
        }),
        { minLength: 1, maxLength: 4 },
      ),
    }),
    { maxLength: 12 },
  )
  .map((all) =>
    all.map(({ namespace, events }, number) => ({
      number,
      events: events.map(({ text, bytes, fanOut }) => ({
        event: event({
          namespace,
          payload: text.repeat(Math.ceil(bytes / Buffer.byteLength(text))),
          key: 'k'.repeat(64),
          redeliveryOf: 'r'.repeat(64),
        }),
        targets: targets(fanOut),
      })),
    })),
  )

const organizationOf = (append: Append) => append.events[0]?.event.namespace ?? ''
const eventsOf = (batch: readonly Append[]) => batch.flatMap(({ events }) => events)

describe('planning segments', () => {
  test('loses nothing, doubles nothing, and keeps the order of each organization', () => {
    fc.assert(
      fc.property(appends, (waiting) => {
        const planned = planSegments(waiting)
        expect(planned.flat().toSorted((a, b) => a.number - b.number)).toEqual(waiting)
        expect(planned.every((batch) => batch.length > 0)).toBe(true)
        for (const name of new Set(waiting.map(organizationOf))) {
          const of = (list: Append[]) => list.filter((append) => organizationOf(append) === name)
          expect(of(planned.flat())).toEqual(of(waiting))
        }
      }),
    )
  })

  test('keeps every segment within its bounds, but for one larger append that stands alone', () => {
    fc.assert(
      fc.property(appends, (waiting) => {
        for (const batch of planSegments(waiting)) {
          if (batch.length === 1) continue
          const spec = segmentLines(eventsOf(batch))
          expect(spec.deliveries.split('\n').length).toBeLessThanOrEqual(MAX_SEGMENT_DELIVERIES)
          expect(Buffer.byteLength(JSON.stringify(spec))).toBeLessThanOrEqual(MAX_SEGMENT_BYTES)
        }
      }),
    )
  })

  test('gives an organization with 16 events or more a segment of its own, and shares among the others', () => {
    fc.assert(
      fc.property(appends, (waiting) => {
        const organizations = Map.groupBy(waiting, organizationOf)
        for (const batch of planSegments(waiting)) {
          const names = new Set(batch.map(organizationOf))
          if (names.size === 1) continue
          for (const name of names) expect(eventsOf(organizations.get(name) ?? []).length).toBeLessThan(16)
        }
      }),
    )
  })

  test('puts what fits into one segment, so that many publishers share one write', () => {
    const waiting = Array.from({ length: 15 }, (_, number) => ({
      number,
      events: [{ event: event({ namespace: `organization-${number}` }), targets: targets(3) }],
    }))
    expect(planSegments(waiting)).toEqual([waiting])
  })

  test('begins another segment before one would have more than 4,096 deliveries', () => {
    const waiting = Array.from({ length: 10 }, (_, number) => ({
      number,
      events: [{ event: event(), targets: targets(1000, 'e') }],
    }))
    expect(planSegments(waiting).map((batch) => batch.map(({ number }) => number))).toEqual([
      [0, 1, 2, 3],
      [4, 5, 6, 7],
      [8, 9],
    ])
  })

  test('of a busy organization fills segments well before the next one is begun', () => {
    const waiting = Array.from({ length: 2000 }, (_, number) => ({
      number,
      events: [{ event: event({ payload: `{"data":"${'x'.repeat(1000)}"}` }), targets: targets(1) }],
    }))
    const planned = planSegments(waiting)
    for (const batch of planned.slice(0, -1)) {
      const bytes = Buffer.byteLength(JSON.stringify(segmentLines(eventsOf(batch))))
      expect(bytes).toBeGreaterThan(MAX_SEGMENT_BYTES / 2)
    }
  })

  test('lets nobody wait behind those who came later: segments are in the order of their oldest append', () => {
    fc.assert(
      fc.property(appends, (waiting) => {
        const oldest = planSegments(waiting).map(([first]) => first?.number ?? -1)
        expect(oldest).toEqual(oldest.toSorted((a, b) => a - b))
      }),
    )
  })

  test('of very many appends of one organization is done in time', () => {
    const events = [{ event: event(), targets: targets(1) }]
    const waiting = Array.from({ length: 200_000 }, (_, number) => ({ number, events }))
    expect(planSegments(waiting).flat()).toHaveLength(200_000)
  })

  test('of nothing is nothing', () => {
    expect(planSegments([])).toEqual([])
  })
})

test('a size is never less than what the events take, and little more', () => {
  fc.assert(
    fc.property(fc.array(accepted, { minLength: 1, maxLength: 20 }), (given) => {
      const empty = Buffer.byteLength(JSON.stringify(segmentLines([])))
      const taken = Buffer.byteLength(JSON.stringify(segmentLines(given))) - empty
      const { bytes, deliveries } = sizeOf(given)
      expect(bytes).toBeGreaterThanOrEqual(taken)
      expect(bytes).toBeLessThanOrEqual(taken + given.length * 100 + deliveries * 10)
      expect(deliveries).toBe(given.flatMap(({ targets: endpoints }) => endpoints).length)
    }),
  )
})

test('a size counts every delivery', () => {
  const size = sizeOf([
    { event: event(), targets: targets(3) },
    { event: event(), targets: [] },
  ])
  expect(size.deliveries).toBe(3)
})
