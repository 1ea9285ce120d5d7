import { expect, test } from 'vitest'
import { fc } from '../../test/support/fast-check.ts'
import { isoTime } from './outcome-segment.ts'

const LAST = 8.64e15

test('a time is told as a Date tells it, whatever was told before', () => {
  const near = fc.integer({ min: 1_795_000_000_000, max: 1_795_000_003_000 })
  const any = fc.integer({ min: -LAST, max: LAST })
  fc.assert(
    fc.property(fc.array(fc.oneof(near, any), { minLength: 1 }), (times) => {
      expect(times.map(isoTime)).toEqual(times.map((ms) => new Date(ms).toISOString()))
    }),
  )
})

test('what no Date can tell is refused, and changes nothing of what comes after', () => {
  expect(isoTime(999)).toBe('1970-01-01T00:00:00.999Z')
  expect(() => isoTime(LAST + 1000)).toThrow(RangeError)
  expect(isoTime(998)).toBe('1970-01-01T00:00:00.998Z')
})
