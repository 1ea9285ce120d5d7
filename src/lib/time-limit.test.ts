import { expect, test } from 'vitest'
import { createTimeLimit, TimeLimitError } from './json-schema.ts'

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

test('a call whose process got no CPU for a moment is begun again, a few times', () => {
  const limit = createTimeLimit(20, () => 0)
  const stuck = (times: number) => {
    let turns = 0
    return () => {
      turns += 1
      while (turns <= times);
      return turns
    }
  }
  expect(limit(stuck(2))).toBe(3)
  expect(() => limit(stuck(3))).toThrow(TimeLimitError)
})

test('one that used its time is not', () => {
  let used = 0
  const limit = createTimeLimit(20, () => {
    used += 10
    return used
  })
  let turns = 0
  expect(() =>
    limit(() => {
      turns += 1
      for (;;);
    }),
  ).toThrow(TimeLimitError)
  expect(turns).toBe(1)
})
