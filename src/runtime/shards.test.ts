import { expect, it } from 'vitest'
import { SHARDS } from '../domain/shard.ts'
import { allShards } from './shards.ts'

it('the only replica owns every shard', () => {
  const shards = Array.from({ length: SHARDS }, (_, shard) => shard)
  expect(shards.filter((shard) => !allShards.owns(shard))).toEqual([])
})
