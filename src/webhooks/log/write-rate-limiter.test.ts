import { expect, it } from 'vitest'
import { fc } from '../../../test/support/fast-check.ts'
import { WriteRateLimiter } from './group-commit.ts'

const ROUNDED = 3

it('lets a burst begin at once, and then one each interval', () => {
  const pace = new WriteRateLimiter({ perSecond: 100, burst: 3 })
  const waits: number[] = []
  let now = 1000
  for (let write = 0; write < 5; write += 1) {
    waits.push(pace.waitMs(now))
    now += pace.waitMs(now)
    pace.recordStart(now)
  }
  expect(waits).toEqual([0, 0, 0, 10, 10])
  expect(pace.waitMs(1030)).toBeCloseTo(0, ROUNDED)
  expect(pace.waitMs(2000)).toBe(0)
})

it('makes nobody wait longer than an interval, however many have begun all the same', () => {
  const pace = new WriteRateLimiter({ perSecond: 100, burst: 3 })
  for (let write = 0; write < 1000; write += 1) pace.recordStart(1000)
  expect(pace.waitMs(1000)).toBeCloseTo(10, ROUNDED)
  expect(pace.waitMs(1010)).toBeCloseTo(0, ROUNDED)
})

it('leaves the time of some writes between them, up to a bound, and no longer once they are quick again', () => {
  const pace = new WriteRateLimiter({ perSecond: 100, burst: 1, writesApart: 2 })
  const waitAfter = (ms: number) => {
    for (let write = 0; write < 90; write += 1) pace.recordEnd(ms)
    pace.recordStart(1000)
    return pace.waitMs(1000)
  }
  expect(waitAfter(4)).toBeCloseTo(10, ROUNDED)
  expect(waitAfter(20)).toBeCloseTo(40, ROUNDED)
  expect(waitAfter(1000)).toBeCloseTo(50, ROUNDED)
  expect(waitAfter(1)).toBeCloseTo(10, ROUNDED)
})

it('takes no more than its share of the rate, and waits no longer than a bound where it has none', () => {
  let share = 1
  const pace = new WriteRateLimiter({ perSecond: 100, burst: 1, share: () => share })
  const waitWith = (part: number) => {
    share = part
    pace.recordStart(1000)
    return pace.waitMs(1000)
  }
  expect(waitWith(1)).toBeCloseTo(10, ROUNDED)
  expect(waitWith(0.4)).toBeCloseTo(25, ROUNDED)
  expect(waitWith(0.01)).toBeCloseTo(150, ROUNDED)
  expect(waitWith(0)).toBeCloseTo(150, ROUNDED)
})

it('lets several begin as many together as one alone, on a slow store as well', () => {
  const waitOf = (part: number, ms: number) => {
    const pace = new WriteRateLimiter({ perSecond: 100, burst: 1, writesApart: 2, share: () => part })
    for (let write = 0; write < 90; write += 1) pace.recordEnd(ms)
    pace.recordStart(1000)
    return pace.waitMs(1000)
  }
  expect(waitOf(1, 20)).toBeCloseTo(40, ROUNDED)
  expect(waitOf(1 / 3, 20)).toBeCloseTo(120, ROUNDED)
  expect(waitOf(1, 1000)).toBeCloseTo(50, ROUNDED)
  expect(waitOf(1 / 3, 1000)).toBeCloseTo(150, ROUNDED)
  expect(waitOf(1 / 8, 1000)).toBeCloseTo(150, ROUNDED)
})

it('never lets more begin in any time than the burst and the rate, and keeps none longer than it must', () => {
  const pauses = fc.array(fc.double({ min: 0, max: 50, noNaN: true }), { maxLength: 200 })
  fc.assert(
    fc.property(
      pauses,
      fc.integer({ min: 1, max: 1000 }),
      fc.integer({ min: 1, max: 20 }),
      (given, rate, burst) => {
        const pace = new WriteRateLimiter({ perSecond: rate, burst })
        const begun: number[] = []
        let now = 0
        for (const ms of given) {
          now += ms
          now += pace.waitMs(now)
          pace.recordStart(now)
          begun.push(now)
        }
        begun.forEach((from, first) => {
          begun.slice(first).forEach((to, more) => {
            expect(more + 1).toBeLessThanOrEqual(burst + ((to - from) * rate) / 1000 + 1e-6)
          })
        })
      },
    ),
  )
})
