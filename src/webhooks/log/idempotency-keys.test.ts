import { expect, test } from 'vitest'
import type { SegmentEvent } from '../../apis/delivery-segment.ts'
import { sortableName } from '../../apis/ids.ts'
import {
  claimLine,
  correctedBy,
  doneLine,
  isBefore,
  isKeyAlive,
  isKeyLine,
  KEY_LIFE_MS,
  type KeyRecord,
  keptLine,
  keyRecordOf,
  MAX_AHEAD_MS,
  usedAt,
} from './idempotency-keys.ts'

const NOW = Date.parse('2026-01-31T12:00:00.000Z')
const MARK = {
  id: sortableName(NOW, new Uint8Array(10)),
  namespace: 'acme',
  key: 'once',
  fingerprint: 'of-it',
}
const PLACE = { position: { version: 7, index: 3 }, deliveries: 2, firstDelivery: 5 }
const EVENT: SegmentEvent = { ...MARK, type: 'environment.started', payload: '{}' }
const RECORD: KeyRecord = { ...MARK, ...PLACE, kind: 'event' }

test('an event says what it is, and a claim and a note the same of what is made elsewhere', () => {
  expect(keyRecordOf(EVENT, PLACE)).toStrictEqual(RECORD)
  expect(keyRecordOf(claimLine(MARK).event, PLACE)).toStrictEqual({ ...RECORD, kind: 'claim' })
  expect(keyRecordOf(doneLine(MARK).event, PLACE)).toStrictEqual({ ...RECORD, kind: 'done' })
  for (const { event, targets } of [claimLine(MARK), doneLine(MARK), keptLine(RECORD)]) {
    expect([isKeyLine(event.type), targets]).toEqual([true, []])
  }
  expect(isKeyLine(EVENT.type)).toBe(false)
  expect([claimLine(MARK).event.payload, doneLine(MARK).event.payload]).toEqual(['', ''])
})

test('a shorter line says what the place did that it repeats, wherever it stands', () => {
  for (const kind of ['event', 'claim', 'done'] as const) {
    const { event } = keptLine({ ...RECORD, kind })
    const elsewhere = { position: { version: 99, index: 0 }, deliveries: 0, firstDelivery: 0 }
    expect(keyRecordOf(event, elsewhere)).toStrictEqual({ ...RECORD, kind })
  }
})

test.each([
  { what: 'no key', event: { ...EVENT, key: undefined } },
  { what: 'no fingerprint', event: { ...EVENT, fingerprint: undefined } },
  { what: 'an id without a time', event: { ...EVENT, id: 'no' } },
  { what: 'a shorter line without a place', event: { ...keptLine(RECORD).event, payload: 'here event 2 5' } },
  { what: 'a shorter line of another kind', event: { ...keptLine(RECORD).event, payload: '7/3 else 2 5' } },
  { what: 'a shorter line that is empty', event: { ...keptLine(RECORD).event, payload: '' } },
])('$what says nothing', ({ event }) => {
  expect(keyRecordOf(event as SegmentEvent, PLACE)).toBeUndefined()
})

test('a key stands for a day', () => {
  expect(isKeyAlive(MARK, NOW + KEY_LIFE_MS - 1)).toBe(true)
  expect(isKeyAlive(MARK, NOW + KEY_LIFE_MS)).toBe(false)
})

test('of two places the one that comes first in the log is before the other, and none is before itself', () => {
  const later = { position: { version: 7, index: 4 } }
  expect([isBefore(PLACE, later), isBefore(later, PLACE), isBefore(PLACE, PLACE)]).toEqual([
    true,
    false,
    false,
  ])
})

test('a key of the future stands for a day from when its line was written at the latest, and copies of the line know that', () => {
  const ahead = { ...RECORD, id: sortableName(NOW + 365 * KEY_LIFE_MS, new Uint8Array(10)) }
  const corrected = correctedBy(ahead, NOW)
  expect([usedAt(ahead), usedAt(corrected)]).toEqual([NOW + 365 * KEY_LIFE_MS, NOW])
  expect(isKeyAlive(corrected, NOW + KEY_LIFE_MS - 1)).toBe(true)
  expect(isKeyAlive(corrected, NOW + KEY_LIFE_MS)).toBe(false)
  const copy = keyRecordOf(keptLine(corrected).event, PLACE)
  expect(copy).toStrictEqual(corrected)
  // A later reader knows less, an earlier one more.
  expect(correctedBy(corrected, NOW + 1000)).toBe(corrected)
  expect(usedAt(correctedBy(corrected, NOW - 60 * 60_000))).toBe(NOW - 60 * 60_000)
})

test('a clock that is a little ahead is believed', () => {
  expect(correctedBy(RECORD, NOW - MAX_AHEAD_MS)).toBe(RECORD)
  expect(correctedBy(RECORD, NOW - MAX_AHEAD_MS - 1)).toStrictEqual({
    ...RECORD,
    usedBy: NOW - MAX_AHEAD_MS - 1,
  })
})
