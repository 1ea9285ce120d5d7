import { describe, expect, it } from 'vitest'
import { FakeClock } from '../../test/support/fake-clock.ts'
import {
  type AcquireOptions,
  FairRateLimiter,
  type FairRateLimits,
  RateLimiterFullError,
} from './rate-limit.ts'

const LIMITS = { perSecond: 10, burst: 1, maxWaiting: 100, maxWaitingOfFlow: 50 }

function bucketOf(limits: Partial<FairRateLimits> = {}) {
  const clock = new FakeClock()
  const bucket = new FairRateLimiter(clock, { ...LIMITS, ...limits })
  const served: string[] = []
  const take = (name: string, options?: AcquireOptions) =>
    bucket.acquire(name.replace(/\d+$/, ''), options).then(() => void served.push(name))
  return { clock, bucket, served, take }
}

describe('FairBucket', () => {
  it('gives a burst at once and then one turn each so often', async () => {
    const { clock, served, take } = bucketOf({ burst: 3 })
    for (const name of ['a1', 'a2', 'a3', 'a4', 'a5']) void take(name)
    await clock.elapse(0)
    expect(served).toEqual(['a1', 'a2', 'a3'])
    await clock.elapse(101)
    expect(served).toEqual(['a1', 'a2', 'a3', 'a4'])
    await clock.elapse(101)
    expect(served).toHaveLength(5)
  })

  it('lets flows take turns, and keeps the order within one', async () => {
    const { clock, served, take } = bucketOf()
    for (const name of ['a0', 'a1', 'a2', 'a3', 'b1', 'b2', 'c1']) void take(name)
    await clock.elapse(2000)
    expect(served).toEqual(['a0', 'a1', 'b1', 'c1', 'a2', 'b2', 'a3'])
  })

  it('serves who had a turn for nothing before the others of its flow, and after other flows', async () => {
    const { clock, served, take } = bucketOf()
    for (const name of ['a0', 'a1', 'a2', 'b1']) void take(name)
    for (const name of ['a8', 'a9']) void take(name, { isRetry: true })
    await clock.elapse(1000)
    expect(served).toEqual(['a0', 'a8', 'b1', 'a9', 'a1', 'a2'])
  })

  it('gives the turn of one who came again and left to the next', async () => {
    const { clock, bucket, served, take } = bucketOf()
    const leaving = new AbortController()
    for (const name of ['a0', 'a1']) void take(name)
    const left = take('a9', { isRetry: true, signal: leaving.signal })
    leaving.abort(new Error('left'))
    await expect(left).rejects.toThrow('left')
    expect(bucket.waiting).toBe(1)
    await clock.elapse(101)
    expect(served).toEqual(['a0', 'a1'])
    expect(bucket.waiting).toBe(0)
  })

  it('serves somebody new before the second turn of those who wait', async () => {
    const { clock, served, take } = bucketOf()
    for (const name of ['a0', 'a1', 'a2', 'a3']) void take(name)
    await clock.elapse(110)
    void take('b1')
    await clock.elapse(1000)
    expect(served).toEqual(['a0', 'a1', 'a2', 'b1', 'a3'])
  })

  it('gives the turn of one who left to the next', async () => {
    const { clock, bucket, served, take } = bucketOf()
    const leaving = new AbortController()
    void take('a0')
    const left = take('a1', { signal: leaving.signal })
    void take('a2')
    leaving.abort(new Error('left'))
    await expect(left).rejects.toThrow('left')
    expect(bucket.waiting).toBe(1)
    await clock.elapse(101)
    expect(served).toEqual(['a0', 'a2'])
  })

  it('does not let in who has left already', async () => {
    const { bucket, take } = bucketOf()
    await expect(take('a1', { signal: AbortSignal.abort(new Error('left')) })).rejects.toThrow('left')
    expect(bucket.isIdle).toBe(true)
  })

  it('refuses at once when too many wait, of one flow or of all', async () => {
    const { take, bucket } = bucketOf({ maxWaiting: 4, maxWaitingOfFlow: 2 })
    for (const name of ['a0', 'a1', 'a2']) void take(name)
    await expect(take('a3')).rejects.toThrow(RateLimiterFullError)
    for (const name of ['b1', 'b2']) void take(name)
    await expect(take('c1')).rejects.toThrow(RateLimiterFullError)
    expect(bucket.waiting).toBe(4)
  })

  it('lets nobody past those who wait, though the timer is late', async () => {
    const fake = new FakeClock()
    let late = 0
    const clock = { now: () => 0, monotonic: () => fake.monotonic() + late, after: fake.after.bind(fake) }
    const bucket = new FairRateLimiter(clock, LIMITS)
    const served: string[] = []
    for (const name of ['a', 'b']) void bucket.acquire(name).then(() => served.push(name))
    late = 150
    void bucket.acquire('c').then(() => served.push('c'))
    await fake.elapse(100)
    expect(served).toEqual(['a', 'b'])
    await fake.elapse(100)
    expect(served).toEqual(['a', 'b', 'c'])
  })

  it('has no timer when nobody waits', async () => {
    const { clock, take, bucket } = bucketOf()
    await take('a0')
    expect(clock.pending).toBe(0)
    const leaving = new AbortController()
    const left = take('a1', { signal: leaving.signal })
    expect(clock.pending).toBe(1)
    leaving.abort()
    await expect(left).rejects.toThrow()
    expect(clock.pending).toBe(0)
    void take('a2')
    await clock.elapse(1000)
    expect(clock.pending).toBe(0)
    expect(bucket.isIdle).toBe(true)
  })

  it('makes those who wait, wait longer after a complaint', async () => {
    const { clock, bucket, served, take } = bucketOf()
    for (const name of ['a0', 'a1', 'a2']) void take(name)
    bucket.slowDown()
    await clock.elapse(101)
    expect(served).toEqual(['a0'])
    await clock.elapse(45)
    expect(served).toEqual(['a0', 'a1'])
    expect(bucket.perSecond).toBeLessThan(7.5)
    expect(bucket.isIdle).toBe(false)
  })
})
