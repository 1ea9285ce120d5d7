import { describe, expect, it } from 'vitest'
import { FakeClock } from '../../test/support/fake-clock.ts'
import { TurnsFullError } from '../ports/turns.ts'
import { FairBuckets } from './fair-buckets.ts'

const LIMITS = { perSecond: 10, burst: 1, maxWaiting: 100, maxWaitingOfFlow: 50, maxKeys: 2 }

describe('FairBuckets', () => {
  it('has a rate for each key', async () => {
    const clock = new FakeClock()
    const buckets = new FairBuckets(clock, LIMITS)
    await buckets.of('one').take('a')
    await buckets.of('two').take('a')
    let third = false
    void buckets
      .of('one')
      .take('a')
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
    const buckets = new FairBuckets(new FakeClock(), { ...LIMITS, maxKeys: 3 })
    const one = buckets.of('one')
    // There is nothing to slow down yet.
    one.slowDown()
    await one.take('a')
    await buckets.of('two').take('a')
    await buckets.of('three').take('a')
    expect(buckets.slowed).toBe(0)
    one.slowDown()
    expect(buckets.slowed).toBe(1)
  })

  it('forgets what is at rest when there are too many, and refuses when none is', async () => {
    const clock = new FakeClock()
    const buckets = new FairBuckets(clock, LIMITS)
    const kept = buckets.of('one')
    await kept.take('a')
    await buckets.of('two').take('a')
    await expect(buckets.of('three').take('a')).rejects.toThrow(TurnsFullError)
    await clock.elapse(200)
    await buckets.of('three').take('a')
    await buckets.of('four').take('a')
    await expect(kept.take('a')).rejects.toThrow(TurnsFullError)
    await clock.elapse(200)
    await kept.take('a')
  })
})
