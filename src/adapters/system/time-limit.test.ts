import { expect, test } from 'vitest'
import { createTimeLimit, TimeLimitError } from './time-limit.ts'

test('a call within the limit gives its value, or throws what it throws', () => {
  const limit = createTimeLimit(1000)
  const error = new TypeError('mine')
  expect(limit(() => [1, 2])).toEqual([1, 2])
  expect(() =>
    limit(() => {
      throw error
    }),
  ).toThrow(error)
})

test('a call without end is ended, and the next one runs', () => {
  const limit = createTimeLimit(20)
  let turns = 0
  expect(() =>
    limit(() => {
      for (;;) turns += 1
    }),
  ).toThrow(TimeLimitError)
  expect(turns).toBeGreaterThan(0)
  expect(() => limit(() => /^(a+)+$/.test(`${'a'.repeat(60)}!`))).toThrow(TimeLimitError)
  expect(limit(() => 'on')).toBe('on')
})
