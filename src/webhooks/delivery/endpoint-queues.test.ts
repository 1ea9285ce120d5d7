import { expect, it } from 'vitest'
import { shardOf } from '../../ha/assignment.ts'
import { EndpointQueues } from './dispatcher.ts'

const uids = Array.from({ length: 20 }, (_, n) => `uid-${n}`)
const [one = '', other = uids.find((uid) => shardOf(uid) !== shardOf(uids[0] ?? '')) ?? ''] = [uids[0]]

function open(queues: EndpointQueues, uid: string) {
  return queues.open({ namespace: 'acme', name: uid, uid })
}

it('drives the lanes of shards that it has taken, also of endpoints that come later, and no others', () => {
  const queues = new EndpointQueues()
  const before = open(queues, one)
  const theirs = open(queues, other)
  expect(before.driver).toBe('others')
  expect(queues.acquire(new Set([shardOf(one)]))).toEqual([before])
  expect(before.driver).toBe('us')
  expect(theirs.driver).toBe('others')
  queues.delete(before)
  expect(queues.get(one)).toBeUndefined()
  expect(open(queues, one).driver).toBe('us')
  expect([...queues.ours()].map(({ endpoint }) => endpoint.uid)).toEqual([one])
  expect(queues.isOurs(shardOf(one))).toBe(true)
  expect(queues.shareOfShards).toBe(1 / 256)
})

it('begins nothing in lanes that it leaves, and says which those are until they are let go of', () => {
  const queues = new EndpointQueues()
  const queue = open(queues, one)
  const shards = new Set([shardOf(one)])
  queues.acquire(shards)
  expect(queues.release(shards)).toEqual([queue])
  expect(queue.driver).toBe('leaving')
  expect(queues.isOurs(shardOf(one))).toBe(false)
  expect([...queues.ours()]).toEqual([])
  expect(queues.release(shards)).toEqual([queue])
  queue.detach()
  expect(queues.release(shards)).toEqual([])
  expect(queues.shareOfShards).toBe(0)
})
