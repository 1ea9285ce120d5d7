import { expect, it } from 'vitest'
import { shardOf } from '../../ha/assignment.ts'
import { EndpointQueues } from './dispatcher.ts'

const uids = Array.from({ length: 20 }, (_, n) => `uid-${n}`)
const [one = '', other = uids.find((uid) => shardOf(uid) !== shardOf(uids[0] ?? '')) ?? ''] = [uids[0]]

function open(lanes: EndpointQueues, uid: string) {
  return lanes.open({ namespace: 'acme', name: uid, uid })
}

it('drives the lanes of shards that it has taken, also of endpoints that come later, and no others', () => {
  const lanes = new EndpointQueues()
  const before = open(lanes, one)
  const theirs = open(lanes, other)
  expect(before.driver).toBe('others')
  expect(lanes.acquire(new Set([shardOf(one)]))).toEqual([before])
  expect(before.driver).toBe('us')
  expect(theirs.driver).toBe('others')
  lanes.delete(before)
  expect(lanes.get(one)).toBeUndefined()
  expect(open(lanes, one).driver).toBe('us')
  expect([...lanes.ours()].map(({ endpoint }) => endpoint.uid)).toEqual([one])
  expect(lanes.isOurs(shardOf(one))).toBe(true)
  expect(lanes.shareOfShards).toBe(1 / 256)
})

it('begins nothing in lanes that it leaves, and says which those are until they are let go of', () => {
  const lanes = new EndpointQueues()
  const lane = open(lanes, one)
  const shards = new Set([shardOf(one)])
  lanes.acquire(shards)
  expect(lanes.release(shards)).toEqual([lane])
  expect(lane.driver).toBe('leaving')
  expect(lanes.isOurs(shardOf(one))).toBe(false)
  expect([...lanes.ours()]).toEqual([])
  expect(lanes.release(shards)).toEqual([lane])
  lane.detach()
  expect(lanes.release(shards)).toEqual([])
  expect(lanes.shareOfShards).toBe(0)
})
