import { expect, test } from 'vitest'
import type { AcceptedEvent } from '../../apis/delivery-segment.ts'
import { sortableName } from '../../apis/ids.ts'
import { decodeDeliveries, segmentLines } from './codec.ts'
import { claimLine, doneLine, isKeyAlive, KEY_LIFE_MS, keptLine, keyRecordsOf } from './idempotency-keys.ts'

const NOW = Date.parse('2026-01-31T12:00:00.000Z')
const UID = '4ea74ba9-69e4-4cd5-b67c-f9fe9723e01a'

function mark(number: number) {
  const id = sortableName(NOW + number, new Uint8Array(10).fill(number))
  return { id, namespace: 'acme', key: `key${number}`, fingerprint: `asked${number}` }
}

function event(number: number, targets: number, given: Partial<AcceptedEvent['event']> = {}): AcceptedEvent {
  return {
    event: { type: 'a.b', payload: '{"a":"b c"}', ...mark(number), ...given },
    targets: Array.from({ length: targets }, (_, at) => ({ name: `e${at}`, uid: UID })),
  }
}

const withoutKey = () => {
  const { key: _, fingerprint: __, ...plain } = event(9, 2).event
  return { ...event(9, 2), event: plain }
}

/** A key of Davit's own, as a ping by annotation has it. */
const ownKey = () => {
  const { fingerprint: _, ...plain } = event(8, 1).event
  return { ...event(8, 1), event: plain }
}

test('a segment says of the keys that came with requests where they are, and how many endpoints get the event', () => {
  const spec = segmentLines([
    withoutKey(),
    event(1, 3),
    ownKey(),
    event(2, 0),
    claimLine(mark(3)),
    doneLine(mark(3)),
  ])
  expect(keyRecordsOf(spec, 500)).toEqual([
    { ...mark(1), kind: 'event', position: { version: 500, index: 1 }, deliveries: 3, firstDelivery: 2 },
    { ...mark(2), kind: 'event', position: { version: 500, index: 3 }, deliveries: 0, firstDelivery: 0 },
    { ...mark(3), kind: 'claim', position: { version: 500, index: 4 }, deliveries: 0, firstDelivery: 0 },
    { ...mark(3), kind: 'done', position: { version: 500, index: 5 }, deliveries: 0, firstDelivery: 0 },
  ])
})

test('a short line says the same as the place that it repeats, however often it is repeated', () => {
  const all = [event(1, 3), claimLine(mark(2)), doneLine(mark(2))]
  const first = keyRecordsOf(segmentLines(all), 500)
  const second = keyRecordsOf(segmentLines(first.map(keptLine)), 600)
  const third = keyRecordsOf(segmentLines(second.map(keptLine)), 700)
  expect(second).toEqual(first)
  expect(third).toEqual(first)
})

test('nobody receives claims, notes and short lines', () => {
  const [record] = keyRecordsOf(segmentLines([event(1, 3)]), 500)
  const spec = segmentLines([claimLine(mark(2)), doneLine(mark(2)), ...(record ? [keptLine(record)] : [])])
  const { deliveries, unreadable, keys } = decodeDeliveries(spec)
  expect({ deliveries, unreadable }).toEqual({ deliveries: [], unreadable: 0 })
  expect(keys?.newestAt).toBe(NOW + 2)
})

test('of keys that a clock made that was ahead, a segment of short lines says when they were used', () => {
  const [record] = keyRecordsOf(segmentLines([event(1, 3)]), 500)
  const spec = segmentLines(record ? [keptLine({ ...record, usedBy: NOW - 5 })] : [])
  expect(decodeDeliveries(spec).keys?.newestAt).toBe(NOW - 5)
})

test('a segment tells which events nobody gets, and no line that only speaks of a key', () => {
  const forNobody = { ...withoutKey(), targets: [] }
  const all = [event(1, 3), event(2, 0), claimLine(mark(3)), doneLine(mark(3)), withoutKey(), forNobody]
  const [record] = keyRecordsOf(segmentLines([event(4, 0)]), 500)
  const spec = segmentLines([...all, ...(record ? [keptLine(record)] : [])])
  expect(decodeDeliveries(spec).undelivered).toEqual([
    { eventIndex: 1, event: expect.objectContaining({ namespace: 'acme', key: 'key2', receivers: 0 }) },
    { eventIndex: 5, event: expect.not.objectContaining({ key: expect.anything() }) },
  ])
  expect(decodeDeliveries(segmentLines([event(1, 3)]))).not.toHaveProperty('undelivered')
})

test('a segment without keys of requests says nothing of keys', () => {
  expect(decodeDeliveries(segmentLines([withoutKey(), ownKey()]))).not.toHaveProperty('keys')
})

test('a key stands for a day from the time in its id', () => {
  expect(isKeyAlive(mark(0), NOW + KEY_LIFE_MS - 1)).toBe(true)
  expect(isKeyAlive(mark(0), NOW + KEY_LIFE_MS)).toBe(false)
})
