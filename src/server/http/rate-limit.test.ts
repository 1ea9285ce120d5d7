import { expect, test } from 'vitest'
import { FakeClock } from '../../../test/support/fake-clock.ts'
import { KeyedRateLimiter, rateLimitHeaders } from './limits.ts'

test('as many as a second allows may come at once, and as many again each second', () => {
  const clock = new FakeClock()
  const limit = new KeyedRateLimiter(clock, 10)
  const takeAll = () => {
    let count = 0
    while (limit.take('a').ok) count += 1
    return count
  }
  expect(takeAll()).toBe(10)
  clock.advance(500)
  expect(takeAll()).toBe(5)
  clock.advance(60_000)
  expect(takeAll()).toBe(10)
})

test('several may be taken at once, and none of them where there are too few', () => {
  const clock = new FakeClock()
  const limit = new KeyedRateLimiter(clock, 10)
  expect(limit.take('a', 8)).toMatchObject({ ok: true, left: 2 })
  expect(limit.take('a', 3)).toEqual({ ok: false, left: 2, resetS: 1 })
  expect(limit.take('a', 2)).toMatchObject({ ok: true, left: 0 })
  clock.advance(1000)
  expect(limit.take('a', 10).ok).toBe(true)
})

test('one name does not take from another', () => {
  const limit = new KeyedRateLimiter(new FakeClock(), 1)
  expect(limit.take('a').ok).toBe(true)
  expect(limit.take('a').ok).toBe(false)
  expect(limit.take('b').ok).toBe(true)
})

test('asking while there is nothing does not put off the next', () => {
  const clock = new FakeClock()
  const limit = new KeyedRateLimiter(clock, 2)
  limit.take('a')
  limit.take('a')
  for (let time = 0; time < 49; time += 1) {
    clock.advance(10)
    expect(limit.take('a').ok).toBe(false)
  }
  clock.advance(11)
  expect(limit.take('a').ok).toBe(true)
})

test('the headers say what is left and when there is more', () => {
  const limit = new KeyedRateLimiter(new FakeClock(), 5)
  const taken = limit.take('a')
  expect(taken).toEqual({ ok: true, left: 4, resetS: 1 })
  expect(rateLimitHeaders({ key: { taken, perSecond: 5 }, organization: { taken, perSecond: 9 } })).toEqual({
    ratelimit: '"key";r=4;t=1, "organization";r=4;t=1',
    'ratelimit-policy': '"key";q=5;w=1, "organization";q=9;w=1',
  })
})
