import { expect, test } from 'vitest'
import { fc } from '../../../test/support/fast-check.ts'
import { LogTimes } from './log-times.ts'

const MINUTE = 60_000
const NEVER = Number.POSITIVE_INFINITY

function timesOf(...entries: [version: number, time: number][]): LogTimes {
  const times = new LogTimes()
  for (const [version, time] of entries) times.add(version, time)
  return times
}

test('a segment was written by its own time, or by the time of a later one if that is earlier', () => {
  const times = timesOf([10, 5 * MINUTE], [20, 900 * MINUTE], [30, 7 * MINUTE])
  expect([9, 10, 11, 20, 30, 31].map((version) => times.writtenBy(version) / MINUTE)).toEqual([
    5,
    5,
    7,
    7,
    7,
    NEVER,
  ])
})

test('a time that is not known says nothing', () => {
  expect(timesOf([10, Number.NaN]).writtenBy(1)).toBe(NEVER)
})

test('in whatever order the segments are read, no result is early, and none is more than a minute late', () => {
  const entry = fc.tuple(fc.integer({ min: 1, max: 40 }), fc.integer({ min: 0, max: 20 * MINUTE }))
  fc.assert(
    fc.property(fc.array(entry, { maxLength: 60 }), (entries) => {
      const times = timesOf(...entries)
      for (let version = 1; version <= 41; version += 1) {
        const later = entries.filter(([known]) => known >= version).map(([, time]) => time)
        const exact = Math.min(NEVER, ...later)
        const found = times.writtenBy(version)
        if (exact === NEVER) expect(found).toBe(NEVER)
        else expect(found >= exact && found < exact + MINUTE).toBe(true)
      }
    }),
    { numRuns: 2000 },
  )
})

test('a day of a busy log takes little memory, read forwards or backwards', () => {
  const perSecond = Array.from({ length: 24 * 3600 }, (_, at): [number, number] => [at + 1, at * 1000])
  for (const entries of [perSecond, perSecond.toReversed()]) {
    const times = timesOf(...entries)
    expect(times.size).toBeLessThan(24 * 60 + 2)
    expect(Math.abs(times.writtenBy(3600) - 3_599_000)).toBeLessThan(MINUTE)
  }
})

test('however many times are known, memory has a limit, and the oldest are forgotten', () => {
  const times = timesOf(
    ...Array.from({ length: 10_000 }, (_, at): [number, number] => [at + 1, at * 2 * MINUTE]),
  )
  expect(times.size).toBe(6_000)
  expect(times.writtenBy(10_000)).toBe(9_999 * 2 * MINUTE)
})
