import { describe, expect, test } from 'vitest'
import { fc } from '../../../test/support/fast-check.ts'
import { longestWaitMs, MAX_ATTEMPTS, nextAttemptAt } from './retry-schedule.ts'

const SECOND = 1000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE
const START = Date.parse('2026-01-31T12:00:00.000Z')

/** Waits before the second, third, ... eighth attempt, as the interface documents them. */
const DOCUMENTED = [30 * SECOND, 2 * MINUTE, 10 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 5 * HOUR]
const UNORDERED = { ordered: false, scale: 1 }
const ORDERED = { ordered: true, scale: 1 }

const fraction = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })
const lasts = fc.integer({ min: 0, max: 20 * SECOND })

/** The waits of one delivery that never succeeds: from the end of each attempt to the start of the next. */
function waitsOf(policy: { ordered: boolean; scale: number }, fractions: number[], lastsMs: number) {
  const waits: number[] = []
  let startedAt = START
  for (let made = 1; ; made += 1) {
    const endedAt = startedAt + lastsMs
    const next = nextAttemptAt(made, { startedAt, endedAt }, policy, fractions[made - 1] ?? 0)
    if (next === undefined) return { attempts: made, waits, lastStart: startedAt }
    waits.push(next - endedAt)
    startedAt = next
  }
}

describe('an unordered delivery', () => {
  test('is attempted eight times, each wait between half and all of the documented one', () => {
    fc.assert(
      fc.property(fc.array(fraction, { minLength: 7, maxLength: 7 }), lasts, (fractions, lastsMs) => {
        const { attempts, waits } = waitsOf(UNORDERED, fractions, lastsMs)
        expect(attempts).toBe(MAX_ATTEMPTS)
        expect(waits).toHaveLength(DOCUMENTED.length)
        waits.forEach((wait, i) => {
          expect(wait).toBeGreaterThanOrEqual((DOCUMENTED[i] ?? Number.NaN) / 2)
          expect(wait).toBeLessThanOrEqual(DOCUMENTED[i] ?? Number.NaN)
          expect(Number.isInteger(wait)).toBe(true)
        })
        const hours = waits.reduce((sum, wait) => sum + wait, 0) / HOUR
        expect(hours).toBeGreaterThanOrEqual(4.35)
        expect(hours).toBeLessThanOrEqual(8.71)
      }),
    )
  })

  test('waits exactly the documented times without jitter, 8 h 42 m 30 s in all', () => {
    const { waits } = waitsOf(UNORDERED, [0, 0, 0, 0, 0, 0, 0], 0)
    expect(waits).toEqual(DOCUMENTED)
    expect(waits.reduce((sum, wait) => sum + wait, 0)).toBe(8 * HOUR + 42 * MINUTE + 30 * SECOND)
  })

  test('waits evenly over the allowed range', () => {
    const wait = (of: number) =>
      (nextAttemptAt(7, { startedAt: 0, endedAt: 0 }, UNORDERED, of) ?? 0) / (5 * HOUR)
    expect([0, 0.25, 0.5, 0.75].map(wait)).toEqual([1, 0.875, 0.75, 0.625])
  })
})

describe('an ordered delivery', () => {
  test('is attempted eight times, three minutes from start to start, without jitter', () => {
    fc.assert(
      fc.property(fc.array(fraction, { minLength: 7, maxLength: 7 }), lasts, (fractions, lastsMs) => {
        const { attempts, waits, lastStart } = waitsOf(ORDERED, fractions, lastsMs)
        expect(attempts).toBe(MAX_ATTEMPTS)
        expect(waits).toEqual(Array.from({ length: 7 }, () => 3 * MINUTE - lastsMs))
        expect(lastStart - START).toBe(21 * MINUTE)
      }),
    )
  })

  test('whose attempt took longer than the cadence is due at its end, not before', () => {
    const times = { startedAt: START, endedAt: START + 4 * MINUTE }
    expect(nextAttemptAt(1, times, ORDERED, 0)).toBe(START + 4 * MINUTE)
  })
})

test('changing between ordered and unordered on the way changes neither the number of attempts nor turns time back', () => {
  fc.assert(
    fc.property(
      fc.array(fc.boolean(), { minLength: 8, maxLength: 8 }),
      fraction,
      lasts,
      (kinds, chance, lastsMs) => {
        let startedAt = START
        let attempts = 0
        for (const ordered of kinds) {
          attempts += 1
          const endedAt = startedAt + lastsMs
          const next = nextAttemptAt(attempts, { startedAt, endedAt }, { ordered, scale: 1 }, chance)
          expect(next === undefined).toBe(attempts === 8)
          expect(next ?? endedAt).toBeGreaterThanOrEqual(endedAt)
          startedAt = next ?? startedAt
        }
      },
    ),
  )
})

test.each([8, 9, 100])('after %i attempts none is left', (made) => {
  expect(nextAttemptAt(made, { startedAt: START, endedAt: START }, UNORDERED, 0)).toBeUndefined()
  expect(nextAttemptAt(made, { startedAt: START, endedAt: START }, ORDERED, 0)).toBeUndefined()
})

test.each([
  { ordered: false, want: 30 },
  { ordered: true, want: 180 },
])('a scale of 0.001 makes every wait a thousandth (ordered: $ordered)', ({ ordered, want }) => {
  const times = { startedAt: START, endedAt: START }
  expect(nextAttemptAt(1, times, { ordered, scale: 0.001 }, 0)).toBe(START + want)
})

test('every time is a whole number of milliseconds, and none is before the end of the attempt, at any scale', () => {
  const scale = fc.double({ min: 0.001, max: 1, noNaN: true })
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 7 }),
      fc.boolean(),
      scale,
      fraction,
      (made, ordered, by, chance) => {
        const next = nextAttemptAt(
          made,
          { startedAt: START, endedAt: START + 7 },
          { ordered, scale: by },
          chance,
        )
        expect(Number.isInteger(next)).toBe(true)
        expect(next).toBeGreaterThanOrEqual(START + 7)
      },
    ),
  )
})

test('nothing is waited for longer than is said of it, whatever the policy, and that is not much more than the documented wait', () => {
  const made = fc.integer({ min: 1, max: MAX_ATTEMPTS - 1 })
  fc.assert(
    fc.property(made, fc.boolean(), fraction, lasts, (made, ordered, fraction, lastsMs) => {
      const endedAt = START + lastsMs
      const next = nextAttemptAt(made, { startedAt: START, endedAt }, { ordered, scale: 1 }, fraction) ?? 0
      expect(next - endedAt).toBeLessThanOrEqual(longestWaitMs(made, 1))
    }),
  )
  for (const [index, documented] of DOCUMENTED.entries())
    expect(longestWaitMs(index + 1, 1)).toBe(Math.max(documented, 5 * MINUTE))
})
