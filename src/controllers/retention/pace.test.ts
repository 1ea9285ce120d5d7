import { expect, test } from 'vitest'
import { type Group, Pace } from './pace.ts'

const full: Group = { deletes: 8, full: true }

test('a hundred deletes a second, evenly', () => {
  expect(new Pace().waitAfter({ deletes: 5, full: false }, true)).toBe(50)
})

test('with nothing to delete it looks again after a second', () => {
  expect(new Pace().waitAfter({ deletes: 0, full: false }, true)).toBe(1000)
})

test('while there is always more, the rate grows to five hundred a second in a minute or two, and no further', () => {
  const pace = new Pace()
  let elapsed = 0
  let wait = pace.waitAfter(full, true)
  while (wait > 16 && elapsed < 600_000) {
    elapsed += wait
    const next = pace.waitAfter(full, true)
    expect(next).toBeLessThanOrEqual(wait)
    wait = next
  }
  expect(wait).toBe(16)
  expect(elapsed).toBeGreaterThan(60_000)
  expect(elapsed).toBeLessThan(120_000)
  for (let n = 0; n < 100; n += 1) expect(pace.waitAfter(full, true)).toBe(16)
})

test('once it keeps up, it is slow again', () => {
  const pace = new Pace()
  for (let n = 0; n < 2000; n += 1) pace.waitAfter(full, true)
  pace.waitAfter({ deletes: 3, full: false }, true)
  expect(pace.waitAfter(full, true)).toBeGreaterThan(75)
})

test('while outcomes cannot be stored it deletes a tenth as fast, but goes on', () => {
  const pace = new Pace()
  for (let n = 0; n < 2000; n += 1) pace.waitAfter(full, true)
  expect(pace.waitAfter(full, false)).toBe(800)
  expect(pace.waitAfter(full, false)).toBe(800)
})

test.each([
  { given: 0, want: 1000 },
  { given: 30_000, want: 30_000 },
])('a store that asks to wait $given ms gets $want', ({ given, want }) => {
  expect(new Pace().waitAfter({ ...full, waitMs: given }, true)).toBe(want)
})
