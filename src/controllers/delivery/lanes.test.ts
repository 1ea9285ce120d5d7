import { expect, it } from 'vitest'
import { shardOf } from '../../domain/shard.ts'
import { Lanes } from './lanes.ts'

const uids = Array.from({ length: 20 }, (_, n) => `uid-${n}`)
const [one = '', other = uids.find((uid) => shardOf(uid) !== shardOf(uids[0] ?? '')) ?? ''] = [uids[0]]

function open(lanes: Lanes, uid: string) {
  return lanes.open({ namespace: 'acme', name: uid, uid })
}

it('drives the lanes of shards that it has taken, also of endpoints that come later, and no others', () => {
  const lanes = new Lanes()
  const before = open(lanes, one)
  const theirs = open(lanes, other)
  expect(before.driver).toBe('others')
  expect(lanes.take(new Set([shardOf(one)]))).toEqual([before])
  expect(before.driver).toBe('us')
  expect(theirs.driver).toBe('others')
  lanes.delete(before)
  expect(lanes.get(one)).toBeUndefined()
  expect(open(lanes, one).driver).toBe('us')
  expect([...lanes.ours()].map(({ endpoint }) => endpoint.uid)).toEqual([one])
  expect(lanes.isOurs(shardOf(one))).toBe(true)
  expect(lanes.part).toBe(1 / 256)
})

it('begins nothing in lanes that it leaves, and says which those are until they are let go of', () => {
  const lanes = new Lanes()
  const lane = open(lanes, one)
  const shards = new Set([shardOf(one)])
  lanes.take(shards)
  expect(lanes.leave(shards)).toEqual([lane])
  expect(lane.driver).toBe('leaving')
  expect(lanes.isOurs(shardOf(one))).toBe(false)
  expect([...lanes.ours()]).toEqual([])
  expect(lanes.leave(shards)).toEqual([lane])
  lane.leave()
  expect(lanes.leave(shards)).toEqual([])
  expect(lanes.part).toBe(0)
})
