import { expect, it } from 'vitest'
import { cacheSeconds, goDuration } from './kubelet-provider.ts'

const HOUR = 3_600_000

it.each([
  ['what nothing ends', undefined, 300],
  ['a token of twelve hours', 12 * HOUR, 21_600],
  ['a token of a week, by a clock that was set back,', 168 * HOUR, 21_600],
  ['a token of two minutes', 120_000, 60],
  ['a token that ends within a pull', 60_000, 0],
  ['a token that has ended', -HOUR, 0],
])('%s is kept for its time', (_what, leftMs, want) => {
  const login = leftMs === undefined ? {} : { expiresAt: HOUR + leftMs }
  expect(cacheSeconds(login, { now: HOUR, seconds: 300 })).toBe(want)
})

it('is written as Go reads it', () => {
  expect(goDuration(21_600)).toBe('21600s')
})
