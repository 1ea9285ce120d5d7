import { expect, test } from 'vitest'
import { medianWithin } from './median-within.ts'

const upTo = (count: number) => Array.from({ length: count }, (_, n) => count - n)

// Places as in tables of the sign test.
test.for([
  [5, undefined],
  [6, { min: 1, median: 3.5, max: 6 }],
  [8, { min: 1, median: 4.5, max: 8 }],
  [9, { min: 2, median: 5, max: 8 }],
  [14, { min: 3, median: 7.5, max: 12 }],
  [20, { min: 6, median: 10.5, max: 15 }],
] as const)('of %i values', ([count, within]) => {
  expect(medianWithin(upTo(count))).toEqual(within)
})
