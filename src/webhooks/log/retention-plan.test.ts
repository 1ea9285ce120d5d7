import { expect, test } from 'vitest'
import { fc } from '../../../test/support/fast-check.ts'
import {
  type Holders,
  heldTooLong,
  type LogState,
  nextToDelete,
  type OutcomesSummary,
  outcomesToDelete,
  type RetentionLimits,
  rejectedTooLong,
  type SegmentSummary,
  segmentsToDelete,
} from './retention-plan.ts'

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR
const NOW = Date.UTC(2026, 0, 31, 12)

const limits: RetentionLimits = {
  succeededMs: DAY,
  failedMs: 7 * DAY,
  maxFinishedPerEndpoint: 10,
  maxFinishedBytes: 400_000,
  maxLogBytes: 1000,
}

test.each([
  { given: 'none', count: { size: 0 }, want: undefined },
  { given: 'young ones', count: { size: 2, oldestSucceeded: NOW - DAY, oldestOther: NOW }, want: undefined },
  {
    given: 'a success of more than a day ago',
    count: { size: 1, oldestSucceeded: NOW - DAY - 1 },
    want: 'succeeded',
  },
  { given: 'a failure of seven days ago', count: { size: 1, oldestOther: NOW - 7 * DAY }, want: undefined },
  {
    given: 'a failure of more than seven days ago',
    count: { size: 1, oldestOther: NOW - 7 * DAY - 1 },
    want: 'other',
  },
  {
    given: 'as many as allowed',
    count: { size: 10, oldestSucceeded: NOW, oldestOther: NOW },
    want: undefined,
  },
  {
    given: 'one too many, failures older',
    count: { size: 11, oldestSucceeded: NOW, oldestOther: NOW - DAY },
    want: 'succeeded',
  },
  { given: 'one too many, all failures', count: { size: 11, oldestOther: NOW - DAY }, want: 'other' },
  {
    given: 'a young success and an old failure',
    count: { size: 2, oldestSucceeded: NOW, oldestOther: NOW - 8 * DAY },
    want: 'other',
  },
])('of $given goes: $want', ({ count, want }) => {
  expect(nextToDelete(count, limits.maxFinishedPerEndpoint, limits, NOW)).toBe(want)
})

test('deleting what goes, one after the other, leaves at most the bound and nothing too old, and spares failures', () => {
  const delivery = fc.record({
    succeeded: fc.boolean(),
    endedAt: fc.integer({ min: NOW - 9 * DAY, max: NOW }),
  })
  fc.assert(
    fc.property(fc.array(delivery, { maxLength: 40 }), fc.nat(20), (given, max) => {
      const left = given.toSorted((a, b) => a.endedAt - b.endedAt)
      const young = given.filter(({ endedAt, succeeded }) => NOW - endedAt <= (succeeded ? 1 : 7) * DAY)
      for (;;) {
        const oldestSucceeded = left.find(({ succeeded }) => succeeded)?.endedAt
        const oldestOther = left.find(({ succeeded }) => !succeeded)?.endedAt
        const which = nextToDelete({ size: left.length, oldestSucceeded, oldestOther }, max, limits, NOW)
        if (!which) break
        const at = left.findIndex(({ succeeded }) => succeeded === (which === 'succeeded'))
        expect(at).toBeGreaterThanOrEqual(0)
        left.splice(at, 1)
      }
      const failures = young.filter(({ succeeded }) => !succeeded)
      expect(left.length).toBeLessThanOrEqual(max)
      for (const { succeeded, endedAt } of left) {
        expect(NOW - endedAt).toBeLessThanOrEqual((succeeded ? 1 : 7) * DAY)
      }
      expect(left.filter(({ succeeded }) => !succeeded).length).toBe(Math.min(max, failures.length))
      if (given.length <= max) expect(left.length).toBe(young.length)
    }),
  )
})

test.each([
  { given: 'disabled and accepted just seven days ago', disabled: 7 * DAY, accepted: 7 * DAY, want: false },
  { given: 'both a moment longer ago', disabled: 7 * DAY + 1, accepted: 7 * DAY + 1, want: true },
  { given: 'disabled long ago, accepted yesterday', disabled: 30 * DAY, accepted: DAY, want: false },
  { given: 'accepted long ago, disabled yesterday', disabled: DAY, accepted: 30 * DAY, want: false },
])('a delivery that was $given is held too long: $want', ({ disabled, accepted, want }) => {
  expect(heldTooLong({ disabledAt: NOW - disabled, acceptedAt: NOW - accepted }, limits, NOW)).toBe(want)
})

function segment(version: number, over: Partial<SegmentSummary> = {}): SegmentSummary {
  return { version, createdAt: NOW - HOUR, bytes: 100, organization: 'acme', ...over }
}

function outcomes(version: number, lowWater: number, over: Partial<OutcomesSummary> = {}): OutcomesSummary {
  return { version, lowWater, createdAt: NOW - HOUR, bytes: 100, ...over }
}

type Log = LogState<SegmentSummary, OutcomesSummary>

function logOf(over: Partial<Log>): Log {
  return { segments: [], outcomes: [], lowWater: 1000, syncedVersion: 1000, holders: () => 'none', ...over }
}

function versions(found: readonly { version: number }[]): number[] {
  return found.map(({ version }) => version)
}

test('a segment goes when it is a day old, all of it is closed, and no object refers to it', () => {
  const old = { createdAt: NOW - DAY - 1 }
  const segments = [segment(1, old), segment(2, old), segment(3), segment(4, old), segment(5, old)]
  const holders = ({ version }: SegmentSummary): Holders => (version === 2 ? 'succeeded' : 'none')
  const found = segmentsToDelete(logOf({ segments, lowWater: 4, holders }), limits, NOW)
  expect(versions(found.delete)).toEqual([1, 4])
  expect(found.release).toEqual([])
})

test('when the log is too large the oldest segments go, and none of the last two minutes', () => {
  const young = { createdAt: NOW - 2 * MINUTE + 1 }
  const segments = [1, 2, 3].map((version) => segment(version, { bytes: 400 }))
  expect(versions(segmentsToDelete(logOf({ segments }), limits, NOW).delete)).toEqual([1])
  const fresh = segments.map((old) => ({ ...old, ...young }))
  expect(segmentsToDelete(logOf({ segments: fresh }), limits, NOW).delete).toEqual([])
})

test('a segment that seems to come from the future is no reason to let the log grow', () => {
  const segments = [1, 2, 3].map((version) => segment(version, { bytes: 400, createdAt: NOW + DAY }))
  expect(versions(segmentsToDelete(logOf({ segments }), limits, NOW).delete)).toEqual([1])
})

test('outcomes count as bytes of the log', () => {
  const segments = [1, 2, 3].map((version) => segment(version, { bytes: 300 }))
  const large = [outcomes(4, 0, { bytes: 150 })]
  expect(versions(segmentsToDelete(logOf({ segments, outcomes: large }), limits, NOW).delete)).toEqual([1])
  expect(segmentsToDelete(logOf({ segments }), limits, NOW).delete).toEqual([])
})

test('an organization within its share keeps its segments, however old, when another fills the log', () => {
  const segments = [
    segment(1, { organization: 'quiet', bytes: 200 }),
    ...[2, 3, 4, 5].map((version) => segment(version, { organization: 'busy', bytes: 300 })),
    segment(6, { organization: 'quiet', bytes: 200 }),
  ]
  const found = segmentsToDelete(logOf({ segments }), limits, NOW)
  expect(versions(found.delete)).toEqual([2, 3])
})

test('for want of space, segments that nothing refers to go first, then those that only successes refer to', () => {
  const held: Holders[] = ['unfinished', 'finished', 'succeeded', 'none']
  const segments = held.map((_, index) => segment(index + 1, { bytes: 400 }))
  const holders = ({ version }: SegmentSummary) => held[version - 1] ?? 'none'
  const found = (maxLogBytes: number) => {
    const log = logOf({ segments, holders })
    const { delete: going, release, unverified } = segmentsToDelete(log, { ...limits, maxLogBytes }, NOW)
    expect(unverified.expired).toEqual([])
    return [going, release, unverified.surplus].map(versions)
  }
  expect(found(1600)).toEqual([[], [], []])
  expect(found(1599)).toEqual([[4], [], []])
  expect(found(1199)).toEqual([[4], [3], []])
  expect(found(799)).toEqual([[4], [3, 2], []])
  expect(found(399)).toEqual([[4], [3, 2], [1]])
  expect(found(0)).toEqual([[4], [3, 2], [1]])
})

test('what would go by its age, but for a delivery that may not have finished, is in doubt', () => {
  const old = { createdAt: NOW - DAY - 1 }
  const segments = [segment(1, old), segment(2, old), segment(3), segment(4, old), segment(5, old)]
  const holders = ({ version }: SegmentSummary): Holders => (version === 2 ? 'finished' : 'unfinished')
  const { unverified } = segmentsToDelete(logOf({ segments, lowWater: 4, holders }), limits, NOW)
  expect([unverified.expired, unverified.surplus].map(versions)).toEqual([[1, 4], []])
})

test('what goes for want of space is no more than is needed, of each who is beyond its share', () => {
  const of = (organization: string, first: number) =>
    [0, 1, 2, 3].map((n) => segment(first + n, { organization, bytes: 200 }))
  const segments = [...of('acme', 1), ...of('busy', 5), segment(9, { organization: 'quiet', bytes: 100 })]
  const found = segmentsToDelete(logOf({ segments }), { ...limits, maxLogBytes: 1300 }, NOW)
  expect(versions(found.delete)).toEqual([1, 5])
  // A share of 600 is reached exactly, and that is enough.
  expect(segmentsToDelete(logOf({ segments }), { ...limits, maxLogBytes: 1700 }, NOW).delete).toEqual([])
})

test.each([
  { given: 'nothing that they speak of is left', segments: [3, 5], outcomes: outcomes(9, 5), want: true },
  { given: 'a segment that they speak of is left', segments: [3, 6], outcomes: outcomes(9, 5), want: false },
  { given: 'only later segments are left', segments: [10, 11], outcomes: outcomes(9, 5), want: true },
  {
    given: 'they are of the last two minutes',
    segments: [],
    outcomes: outcomes(9, 5, { createdAt: NOW - MINUTE }),
    want: false,
  },
])('outcomes go when $given: $want', ({ segments, outcomes: given, want }) => {
  const log = logOf({ segments: segments.map((n) => segment(n)), outcomes: [given, outcomes(99, 5)] })
  expect(versions(outcomesToDelete(log, NOW))).toEqual(want ? [9] : [])
})

test('of the outcomes with claims only the oldest may go, so that a reader who finds one finds all later ones', () => {
  const claims = { hasClaims: true }
  const all = [
    outcomes(5, 3),
    outcomes(6, 3, claims),
    outcomes(7, 6, claims),
    outcomes(8, 7),
    outcomes(99, 5),
  ]
  // The first claim speaks of a segment that is left, and the second one of none.
  const held = logOf({ segments: [segment(4)], outcomes: all.slice(1) })
  expect(versions(outcomesToDelete(held, NOW))).toEqual([8])
  expect(versions(outcomesToDelete(logOf({ outcomes: all }), NOW))).toEqual([5, 6, 8])
  expect(versions(outcomesToDelete(logOf({ outcomes: all.slice(2) }), NOW))).toEqual([7, 8])
})

test('the newest outcomes stay: they hold the low-water mark', () => {
  expect(outcomesToDelete(logOf({ outcomes: [outcomes(9, 5)] }), NOW)).toEqual([])
})

test('outcomes stay that may speak of a segment which was not shown yet', () => {
  const log = { segments: [], outcomes: [outcomes(8, 5), outcomes(9, 5), outcomes(99, 5)] }
  expect(versions(outcomesToDelete(logOf({ ...log, syncedVersion: 8 }), NOW))).toEqual([8])
  expect(versions(outcomesToDelete(logOf({ ...log, syncedVersion: 9 }), NOW))).toEqual([8, 9])
})

test.each([
  {
    given: 'for some minutes',
    rejected: 10 * MINUTE,
    age: 9 * DAY,
    bytes: 9000,
    deliveries: 900,
    want: false,
  },
  { given: 'for longer', rejected: 11 * MINUTE, age: DAY, bytes: 1000, deliveries: 100, want: false },
  { given: 'and is a day old', rejected: 11 * MINUTE, age: DAY + 1, bytes: 0, deliveries: 0, want: true },
  {
    given: 'and much comes after it',
    rejected: 11 * MINUTE,
    age: HOUR,
    bytes: 1001,
    deliveries: 1,
    want: true,
  },
  {
    given: 'and many come after it',
    rejected: 11 * MINUTE,
    age: HOUR,
    bytes: 1,
    deliveries: 101,
    want: true,
  },
])('an entry whose object is rejected $given ends: $want', ({ rejected, age, bytes, deliveries, want }) => {
  const waits = { rejectedSince: NOW - rejected, acceptedAt: NOW - age }
  const limits = { ageMs: DAY, bytes: 1000, deliveries: 100 }
  expect(rejectedTooLong(waits, { bytes, deliveries }, limits, NOW)).toBe(want)
})
