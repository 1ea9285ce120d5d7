import { expect, test } from 'vitest'
import { type DeletionBatch, DeletionRate } from './retention-deleter.ts'

const full: DeletionBatch = { deletes: 4, full: true, tookMs: 0 }

/** Milliseconds until so many full groups were deleted, while nothing comes in. */
function elapsedAfter(pace: DeletionRate, groups: number): number {
  let elapsed = 0
  for (let n = 0; n < groups; n += 1) elapsed += pace.waitAfter(full, 0, true)
  return elapsed
}

test('a hundred deletes a second, evenly', () => {
  expect(new DeletionRate().waitAfter({ deletes: 3, full: false, tookMs: 0 }, 0, true)).toBe(30)
})

test('what the deletes took is part of it', () => {
  const pace = new DeletionRate()
  expect(pace.waitAfter({ deletes: 3, full: false, tookMs: 6 }, 0, true)).toBe(24)
  expect(pace.waitAfter({ deletes: 3, full: false, tookMs: 600 }, 0, true)).toBe(0)
})

test('with nothing to delete it looks again after a second', () => {
  expect(new DeletionRate().waitAfter({ deletes: 0, full: false, tookMs: 0 }, 300, true)).toBe(1000)
})

test.each([
  { arrivals: 0, size: 4, wait: 40 },
  { arrivals: 50, size: 4, wait: 40 },
  { arrivals: 250, size: 12, wait: 40 },
  { arrivals: 1000, size: 24, wait: 24 / 1.2 },
])('where $arrivals come in a second, a fifth more may go', ({ arrivals, size, wait }) => {
  const pace = new DeletionRate()
  expect(pace.groupSize(arrivals)).toBe(size)
  expect(pace.waitAfter({ deletes: size, full: false, tookMs: 0 }, arrivals, true)).toBeCloseTo(wait)
})

test.each([
  { tookMs: 20, size: 10 },
  { tookMs: 80, size: 20 },
  { tookMs: 500, size: 24 },
])(
  'where a group took $tookMs ms, $size are deleted at a time to come to the same rate',
  ({ tookMs, size }) => {
    const pace = new DeletionRate()
    pace.waitAfter({ ...full, tookMs }, 200, true)
    expect(pace.groupSize(200)).toBe(size)
  },
)

test('several beside each other have the rate of one', () => {
  const one = new DeletionRate(1 / 4)
  expect(one.groupSize(400)).toBe(5)
  expect(one.waitAfter({ deletes: 5, full: false, tookMs: 0 }, 400, true)).toBeCloseTo(5000 / 120)
  expect(one.groupSize(10_000)).toBe(6)
})

test('while there is always more, the rate grows to five hundred a second in a quarter of an hour, and no further', () => {
  const pace = new DeletionRate()
  let elapsed = 0
  let wait = pace.waitAfter(full, 0, true)
  while (wait > 8 && elapsed < 3_600_000) {
    elapsed += wait
    const next = pace.waitAfter(full, 0, true)
    expect(next).toBeLessThanOrEqual(wait)
    wait = next
  }
  expect(wait).toBe(8)
  expect(elapsed).toBeGreaterThan(600_000)
  expect(elapsed).toBeLessThan(900_000)
  expect(elapsedAfter(pace, 100)).toBe(800)
})

test('once it keeps up, it is slow again', () => {
  const pace = new DeletionRate()
  elapsedAfter(pace, 100_000)
  pace.waitAfter({ deletes: 3, full: false, tookMs: 0 }, 0, true)
  expect(pace.waitAfter(full, 0, true)).toBeGreaterThan(39)
})

test('while outcomes cannot be stored it deletes a tenth as fast, but goes on', () => {
  const pace = new DeletionRate()
  elapsedAfter(pace, 100_000)
  expect(pace.waitAfter(full, 0, false)).toBe(400)
  expect(pace.waitAfter(full, 0, false)).toBe(400)
})

test.each([
  { given: 0, want: 1000 },
  { given: 30_000, want: 30_000 },
])('a store that asks to wait $given ms gets $want', ({ given, want }) => {
  expect(new DeletionRate().waitAfter({ ...full, waitMs: given }, 0, true)).toBe(want)
})
