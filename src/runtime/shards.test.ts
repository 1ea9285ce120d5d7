import { expect, it } from 'vitest'
import { allShards, SHARD_COUNT } from './shards.ts'

it('the only replica owns every shard, and never gains or loses one', () => {
  const shards = Array.from({ length: SHARD_COUNT }, (_, shard) => shard)
  expect(shards.filter((shard) => !allShards.owns(shard))).toEqual([])
  const stop = allShards.onChange(() => expect.unreachable('nothing changes'))
  stop()
})
