import { describe, expect, it } from 'vitest'
import { FakeClock } from '../../test/support/fake-clock.ts'
import { FairRateLimiters, RateLimiterFullError } from './rate-limit.ts'

const LIMITS = { perSecond: 10, burst: 1, maxWaiting: 100, maxWaitingOfFlow: 50, maxKeys: 2 }

describe('FairBuckets', () => {
  it('has a rate for each key', async () => {
    const clock = new FakeClock()
    const buckets = new FairRateLimiters(clock, LIMITS)
    await buckets.forKey('one').acquire('a')
    await buckets.forKey('two').acquire('a')
    let third = false
    void buckets
      .forKey('one')
      .acquire('a')
      .then(() => {
        third = true
      })
    expect(buckets.waiting).toBe(1)
    await clock.elapse(50)
    expect(third).toBe(false)
    await clock.elapse(51)
    expect(third).toBe(true)
  })

  it('slows down the one that was complained of, and tells how many are slow', async () => {
    const buckets = new FairRateLimiters(new FakeClock(), { ...LIMITS, maxKeys: 3 })
    const one = buckets.forKey('one')
    // There is nothing to slow down yet.
    one.slowDown()
    await one.acquire('a')
    await buckets.forKey('two').acquire('a')
    await buckets.forKey('three').acquire('a')
    expect(buckets.slowed).toBe(0)
    one.slowDown()
    expect(buckets.slowed).toBe(1)
  })

  it('forgets what is at rest when there are too many, and refuses when none is', async () => {
    const clock = new FakeClock()
    const buckets = new FairRateLimiters(clock, LIMITS)
    const kept = buckets.forKey('one')
    await kept.acquire('a')
    await buckets.forKey('two').acquire('a')
    await expect(buckets.forKey('three').acquire('a')).rejects.toThrow(RateLimiterFullError)
    await clock.elapse(200)
    await buckets.forKey('three').acquire('a')
    await buckets.forKey('four').acquire('a')
    await expect(kept.acquire('a')).rejects.toThrow(RateLimiterFullError)
    await clock.elapse(200)
    await kept.acquire('a')
  })
})
