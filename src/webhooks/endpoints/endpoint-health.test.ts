import { expect, test } from 'vitest'
import { fc } from '../../../test/support/fast-check.ts'
import {
  DISABLE_AFTER_FAILURES,
  DISABLE_AFTER_MS,
  decideExhausted,
  type HealthDecision,
  type Streak,
} from './health.ts'

const HOUR = 3_600_000
const START = Date.parse('2026-01-31T12:00:00.000Z')
const DAY_LATER = START + 24 * HOUR

test('the limits are those of the interface', () => {
  expect(DISABLE_AFTER_FAILURES).toBe(5)
  expect(DISABLE_AFTER_MS).toBe(24 * HOUR)
})

test.each([
  { given: 'the first exhausted delivery', count: 0, since: undefined, now: START, want: [1, START, false] },
  {
    given: 'the fifth, a millisecond early',
    count: 4,
    since: START,
    now: DAY_LATER - 1,
    want: [5, START, false],
  },
  { given: 'the fifth, after exactly 24 h', count: 4, since: START, now: DAY_LATER, want: [5, START, true] },
  { given: 'the fourth, after a week', count: 3, since: START, now: DAY_LATER * 7, want: [4, START, false] },
  {
    given: 'the hundredth within an hour',
    count: 99,
    since: START,
    now: START + HOUR,
    want: [100, START, false],
  },
  { given: 'the hundredth, after 24 h', count: 99, since: START, now: DAY_LATER, want: [100, START, true] },
  {
    given: 'the first after a success, with the time of an old streak left',
    count: 0,
    since: START - 100 * HOUR,
    now: START,
    want: [1, START, false],
  },
  {
    given: 'a count whose time is missing',
    count: 7,
    since: undefined,
    now: START,
    want: [8, START, false],
  },
  { given: 'a clock that went back', count: 4, since: DAY_LATER, now: START, want: [5, DAY_LATER, false] },
] as const)('$given', ({ count, since, now, want }) => {
  const streak: Streak = {
    consecutiveFailures: count,
    ...(since === undefined ? {} : { failingSince: new Date(since).toISOString() }),
  }
  const [consecutiveFailures, failingSince, disable] = want
  expect(decideExhausted(streak, 'msg_next', now)).toStrictEqual({
    kind: 'count',
    consecutiveFailures,
    failingSince: new Date(failingSince).toISOString(),
    disable,
  })
})

test('a delivery that was counted already is not counted again', () => {
  const streak: Streak = {
    consecutiveFailures: 4,
    failingSince: new Date(START).toISOString(),
    lastCounted: 'msg_a',
  }
  expect(decideExhausted(streak, 'msg_a', DAY_LATER)).toStrictEqual({ kind: 'counted' })
  expect(decideExhausted(streak, 'msg_b', DAY_LATER)).toMatchObject({ consecutiveFailures: 5, disable: true })
})

test('a delivery that was counted before a success is not counted after it', () => {
  const streak: Streak = { consecutiveFailures: 0, lastCounted: 'msg_a' }
  expect(decideExhausted(streak, 'msg_a', START)).toStrictEqual({ kind: 'counted' })
})

/** The streak as status has it after an exhausted delivery was counted. */
function afterDecision(streak: Streak, id: string, decision: HealthDecision): Streak {
  if (decision.kind === 'counted') return streak
  const { consecutiveFailures, failingSince } = decision
  return { consecutiveFailures, failingSince, lastCounted: id }
}

type Event = { what: 'exhausted' | 'repeat' | 'success'; waitMs: number }

const history: fc.Arbitrary<Event[]> = fc.array(
  fc.record({
    what: fc.constantFrom(
      'exhausted',
      'exhausted',
      'exhausted',
      'exhausted',
      'exhausted',
      'repeat',
      'success',
    ),
    /** Passes before it. */
    waitMs: fc.oneof(fc.integer({ min: 0, max: 16 * HOUR }), fc.constantFrom(0, 6 * HOUR, 24 * HOUR)),
  }),
  { maxLength: 40 },
)

test('over any history, it disables exactly when five in a row are exhausted over 24 hours', () => {
  fc.assert(
    fc.property(history, (given) => {
      let streak: Streak = { consecutiveFailures: 0, lastCounted: 'msg_0' }
      let now = START
      let number = 0
      /** When each delivery of the row was exhausted: the rule as the interface words it. */
      let row: number[] = []
      const events: Record<Event['what'], () => void> = {
        success: () => {
          streak = { consecutiveFailures: 0, lastCounted: streak.lastCounted }
          row = []
        },
        repeat: () => {
          expect(decideExhausted(streak, `msg_${number}`, now)).toStrictEqual({ kind: 'counted' })
        },
        exhausted: () => {
          number += 1
          row.push(now)
          const [since = Number.NaN] = row
          const decision = decideExhausted(streak, `msg_${number}`, now)
          expect(decision).toStrictEqual({
            kind: 'count',
            consecutiveFailures: row.length,
            failingSince: new Date(since).toISOString(),
            disable: row.length >= 5 && now - since >= 24 * HOUR,
          })
          streak = afterDecision(streak, `msg_${number}`, decision)
        },
      }
      for (const { what, waitMs } of given) {
        now += waitMs
        events[what]()
      }
    }),
    { numRuns: 500 },
  )
})

test('a brief outage does not disable, however many deliveries it exhausts', () => {
  let streak: Streak = { consecutiveFailures: 0 }
  for (let i = 0; i < 1000; i += 1) {
    const decision = decideExhausted(streak, `msg_${i}`, START + i * 60_000)
    expect(decision).toMatchObject({ disable: false })
    streak = afterDecision(streak, `msg_${i}`, decision)
  }
})
