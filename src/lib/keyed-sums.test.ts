import { expect, test } from 'vitest'
import { KeyedSums } from './fair-queue.ts'

test('sums are kept by key and in total, and one that is back at zero counts as none', () => {
  const sums = new KeyedSums()
  sums.add('a', 3)
  sums.add('b', 2)
  sums.add('a', 1)
  expect([sums.of('a'), sums.of('b'), sums.of('c'), sums.total]).toEqual([4, 2, 0, 6])
  sums.add('a', -4)
  expect([sums.of('a'), sums.total]).toEqual([0, 2])
})

test('a fair total counts no key with more than it may have', () => {
  const sums = new KeyedSums(5)
  sums.add('a', 3)
  sums.add('b', 4)
  expect(sums.fairTotal).toBe(7)
  sums.add('a', 10)
  sums.add('b', 1)
  expect([sums.total, sums.fairTotal]).toEqual([18, 10])
  sums.add('a', -9)
  expect([sums.total, sums.fairTotal]).toEqual([9, 9])
})
