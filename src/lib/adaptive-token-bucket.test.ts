import { describe, expect, it } from 'vitest'
import { fc } from '../../test/support/fast-check.ts'
import { AdaptiveTokenBucket } from './rate-limit.ts'

const LIMITS = { perSecond: 10, burst: 5 }

function drain(level: AdaptiveTokenBucket, now: number): number {
  let taken = 0
  while (level.tryTake(now)) taken += 1
  return taken
}

describe('TokenLevel', () => {
  it('has its burst at first, then one each so often', () => {
    const level = new AdaptiveTokenBucket(LIMITS)
    expect(drain(level, 0)).toBe(5)
    expect(level.waitMs(0)).toBeCloseTo(100)
    expect(drain(level, 99)).toBe(0)
    expect(drain(level, 101)).toBe(1)
    expect(drain(level, 60_000)).toBe(5)
  })

  it('loses what is saved up and three tenths of its rate at a complaint', () => {
    const level = new AdaptiveTokenBucket(LIMITS)
    level.slowDown(0)
    expect(drain(level, 0)).toBe(0)
    expect(level.perSecond(0)).toBeCloseTo(7)
    expect(level.waitMs(0)).toBeCloseTo(1000 / 7)
  })

  it('counts complaints that come together once', () => {
    const level = new AdaptiveTokenBucket(LIMITS)
    for (const time of [0, 10, 400, 999]) level.slowDown(time)
    expect(level.perSecond(999)).toBeCloseTo(7, 0)
    level.slowDown(1000)
    expect(level.perSecond(1000)).toBeCloseTo(5, 0)
  })

  it('never falls below a tenth of its rate, and recovers from there within two minutes', () => {
    const level = new AdaptiveTokenBucket(LIMITS)
    for (let time = 0; time < 30_000; time += 1000) level.slowDown(time)
    expect(level.perSecond(29_000)).toBeCloseTo(1)
    expect(level.perSecond(89_000)).toBeCloseTo(5.5)
    expect(level.isFull(148_000)).toBe(false)
    expect(level.perSecond(149_001)).toBe(10)
    expect(level.isFull(155_000)).toBe(true)
  })

  it('gives no more than rate and burst allow, and waits no longer than it says', () => {
    const step = fc.record({ wait: fc.integer({ min: 0, max: 5000 }), slow: fc.boolean() })
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const level = new AdaptiveTokenBucket(LIMITS)
        let now = 0
        let taken = 0
        for (const { wait, slow } of steps) {
          now += wait
          if (slow) level.slowDown(now)
          taken += drain(level, now)
          expect(taken).toBeLessThanOrEqual(LIMITS.burst + (now / 1000) * LIMITS.perSecond + 1e-6)
          now += Math.ceil(level.waitMs(now)) + 1
          expect(level.tryTake(now)).toBe(true)
          taken += 1
        }
      }),
    )
  })
})
