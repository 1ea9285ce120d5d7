import { expect, test } from 'vitest'
import { delaysOf } from './object-delays.ts'

const SECOND = 1e6

test.for([
  {
    name: 'a delivery without an object counts as not seen and not in time',
    given: { received: [0, 0], seen: [SECOND] },
    want: { seen: 0.5, inTime: 0.5, count: 1, max: 1000 },
  },
  {
    name: 'an object after exactly two seconds is in time, one after more is not',
    given: { received: [0, 0, SECOND, SECOND], seen: [2 * SECOND, 2 * SECOND + 1, SECOND, 9 * SECOND] },
    want: { seen: 1, inTime: 0.5, count: 4, max: 8000 },
  },
  {
    name: 'an object before the receipt has no delay',
    given: { received: [5 * SECOND], seen: [SECOND] },
    want: { seen: 1, inTime: 1, count: 1, max: 0 },
  },
  {
    name: 'an object of an event that was not received counts for nothing',
    given: { received: [0], seen: [SECOND, SECOND] },
    want: { seen: 1, inTime: 1, count: 1, max: 1000 },
  },
  {
    name: 'nothing was received',
    given: { received: [], seen: [] },
    want: { seen: 0, inTime: 0, count: 0, max: 0 },
  },
])('$name', ({ given, want }) => {
  const { seen, inTime, delay } = delaysOf(byNumber(given.received), byNumber(given.seen))
  expect({ seen, inTime, count: delay.count, max: delay.max }).toEqual(want)
})

function byNumber(times: readonly number[]): Map<number, number> {
  return new Map(times.entries())
}
