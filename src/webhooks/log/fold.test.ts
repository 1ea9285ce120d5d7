import { describe, expect, it } from 'vitest'
import { fc } from '../../../test/support/fast-check.ts'
import type { OutcomeRecord } from '../../apis/outcome-segment.ts'
import type { DeliveryAttempt } from '../../apis/webhook-delivery.ts'
import { statusFromLog } from '../delivery/plan.ts'
import { attemptsOf, endsDelivery, fold, isClosed, type LogState, NO_RECORDS } from './fold.ts'

const position = { version: 7, index: 0 }
const START = Date.parse('2026-01-31T12:00:00.000Z')
const MINUTE = 60_000

function attempt(number: number, code = 500): DeliveryAttempt {
  return { at: new Date(START + number * MINUTE).toISOString(), latencyMs: 5, code }
}

const failed = (number: number, isLast = false): OutcomeRecord => ({
  kind: 'failed',
  position,
  attempt: attempt(number),
  nextAttemptAt: isLast ? 0 : START + (number + 1) * MINUTE,
})
const sent = (number: number, object: boolean): OutcomeRecord => ({
  kind: 'sent',
  position,
  attempt: attempt(number, 200),
  object,
})
const canceled: OutcomeRecord = { kind: 'canceled', position, reason: 'EndpointDeleted' }
const moved: OutcomeRecord = { kind: 'moved', position }
const begin: OutcomeRecord = { kind: 'begin', position, attempts: 0, isAlone: false }

type Sequenced = { record: OutcomeRecord; version: number }

/** In segments 10, 11, ... */
function inOrder(records: readonly OutcomeRecord[]): Sequenced[] {
  return records.map((record, index) => ({ record, version: 10 + index }))
}

function foldAll(records: readonly Sequenced[]): LogState {
  let state: LogState = NO_RECORDS
  for (const one of records) state = fold(state, one, (made) => made)
  return state
}

describe('the records of a delivery', () => {
  it.each([
    { what: 'a success without an object', record: sent(0, false), closes: true, ends: true },
    { what: 'a success whose object is owed', record: sent(0, true), closes: false, ends: true },
    { what: 'a failure before the last', record: failed(0), closes: false, ends: false },
    { what: 'the last failure', record: failed(0, true), closes: false, ends: true },
    { what: 'a move', record: moved, closes: true, ends: false },
    { what: 'a cancel', record: canceled, closes: true, ends: true },
    { what: 'the beginning of an attempt', record: begin, closes: false, ends: false },
    {
      what: 'the end of an object',
      record: { kind: 'ended', position } as const,
      closes: false,
      ends: false,
    },
  ])('say of $what whether the entry is closed and the delivery has ended', ({ record, closes, ends }) => {
    const state = foldAll(inOrder([record]))
    expect(isClosed(state)).toBe(closes)
    expect(state.end !== 'none').toBe(ends)
    expect(endsDelivery(record)).toBe(ends)
  })

  it('come to the status that attempts make, and pass over the rest', () => {
    expect(statusFromLog(NO_RECORDS)).toEqual({})
    expect(statusFromLog(foldAll(inOrder([begin, failed(0)])))).toEqual({
      state: 'retrying',
      attemptCount: 1,
      attempts: [attempt(0)],
      nextAttemptAt: '2026-01-31T12:01:00.000Z',
    })
    expect(statusFromLog(foldAll(inOrder([failed(0), begin, sent(1, true)])))).toEqual({
      state: 'succeeded',
      attemptCount: 2,
      attempts: [attempt(0), attempt(1, 200)],
      completedAt: '2026-01-31T12:01:00.005Z',
    })
  })

  it('come to an end without a next time where the last attempt failed', () => {
    const failures = Array.from({ length: 8 }, (_, number) => failed(number, number === 7))
    expect(statusFromLog(foldAll(inOrder(failures)))).toEqual({
      state: 'exhausted',
      attemptCount: 8,
      attempts: failures.map((_, number) => attempt(number)),
      completedAt: '2026-01-31T12:07:00.005Z',
    })
  })

  it('count a late copy of an earlier attempt once, with the time of the newest', () => {
    const copy = { record: failed(0), version: 20 }
    const state = foldAll([...inOrder([failed(0), failed(1)]), copy])
    expect(attemptsOf(state)).toHaveLength(2)
    expect(state.nextAttemptAt).toBe(START + 2 * MINUTE)
    const before = foldAll(inOrder([failed(0), failed(1)]))
    expect(fold(before, copy, (made) => made)).toBe(before)
  })

  it('end a delivery once: the first end in the log stands, in whatever order a reader meets them', () => {
    const ends = inOrder([sent(0, false), canceled])
    for (const order of [ends, ends.toReversed()]) {
      expect(foldAll(order)).toMatchObject({ end: 'sent', endVersion: 10 })
      expect(foldAll(order)).not.toHaveProperty('reason')
    }
    expect(foldAll(inOrder([canceled, sent(0, true)]))).toMatchObject({ end: 'canceled', owesObject: false })
  })

  it('say the same in any order and however often they come', () => {
    const course = fc.record({
      failures: fc.nat({ max: 8 }),
      end: fc.constantFrom('none', 'sent', 'owed', 'exhausted', 'canceled'),
      isMoved: fc.boolean(),
    })
    fc.assert(
      fc.property(course, fc.array(fc.nat(), { maxLength: 20 }), fc.integer(), (given, repeats, seed) => {
        const records = Array.from({ length: given.failures }, (_, number) => failed(number))
        if (given.end === 'exhausted') records.push(failed(given.failures, true))
        if (given.end === 'canceled') records.push(canceled)
        if (given.end === 'sent' || given.end === 'owed') records.push(sent(9, given.end === 'owed'))
        if (given.isMoved) records.push(moved)
        const once = inOrder(records)
        const again = repeats.flatMap((at) => once[at % Math.max(1, once.length)] ?? [])
        // A copy stands in a later segment.
        const copies = again.map((one, index) => ({ ...one, version: 100 + index }))
        const shuffled = [...once, ...copies].sort(
          (a, b) => ((a.version * seed) % 97) - ((b.version * seed) % 97),
        )
        expect(foldAll(shuffled)).toEqual(foldAll(once))
      }),
    )
  })
})
