import { expect, test } from 'vitest'
import { fc } from '../../test/support/fast-check.ts'
import { SHARD_COUNT, shardOf } from './assignment.ts'

test('every UID has one shard of 256', () => {
  fc.assert(
    fc.property(fc.string(), (uid) => {
      const shard = shardOf(uid)
      expect(Number.isInteger(shard) && shard >= 0 && shard < SHARD_COUNT).toBe(true)
      expect(shardOf(uid)).toBe(shard)
    }),
  )
  expect(SHARD_COUNT).toBe(256)
})

test('a UID keeps its shard in every version, since it is a label of what is stored', () => {
  expect(shardOf('0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0')).toBe(86)
  expect(shardOf('')).toBe(0xe3)
})

test('endpoints spread over all shards evenly', () => {
  const counts = new Array<number>(SHARD_COUNT).fill(0)
  for (let i = 0; i < 25_600; i += 1) {
    const shard = shardOf(`uid-${i}`)
    counts[shard] = (counts[shard] ?? 0) + 1
  }
  // 100 each on average; the bounds are five standard deviations away.
  expect(Math.min(...counts)).toBeGreaterThan(50)
  expect(Math.max(...counts)).toBeLessThan(150)
})
