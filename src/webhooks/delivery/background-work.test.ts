import { expect, it } from 'vitest'
import { settle } from '../../../test/support/fake-clock.ts'
import { QUEUE_ENDPOINT } from '../../../test/support/queue-deliveries.ts'
import { OwnershipEpochs } from '../../ha/ownership.ts'
import { BackgroundWork } from './context.ts'
import { EndpointQueue } from './queue.ts'

function made() {
  const giveUp = new AbortController()
  const errors: string[] = []
  const ended: EndpointQueue[] = []
  const nothing = () => undefined
  const log = { info: nothing, warn: nothing, error: (message: string) => void errors.push(message) }
  const epochs = new OwnershipEpochs()
  const shards = { owns: () => true, epochs }
  const work = new BackgroundWork({ giveUp: giveUp.signal, log, shards }, (lane) => void ended.push(lane))
  return { giveUp, errors, ended, work, epochs, lane: new EndpointQueue(QUEUE_ENDPOINT) }
}

it('keeps its lane from being idle until it has ended, and tells that', async () => {
  const { work, lane, ended } = made()
  const piece = Promise.withResolvers<void>()
  work.add(piece.promise, lane)
  expect([work.size, lane.busy, lane.settling, lane.isIdle]).toEqual([1, 1, 0, false])
  expect(ended).toEqual([])
  piece.resolve()
  await settle()
  expect([work.size, lane.busy, lane.isIdle]).toEqual([0, 0, true])
  expect(ended).toEqual([lane])
})

it('counts what settles beside the rest', async () => {
  const { work, lane } = made()
  const piece = Promise.withResolvers<void>()
  work.add(piece.promise, lane, true)
  work.add(Promise.resolve(), lane)
  expect([lane.busy, lane.settling]).toEqual([2, 1])
  await settle()
  expect([lane.busy, lane.settling]).toEqual([1, 1])
  piece.resolve()
  await settle()
  expect([lane.busy, lane.settling]).toEqual([0, 0])
})

it('has ended as well when it failed, and says so, unless it was given up', async () => {
  const { work, lane, ended, errors, giveUp } = made()
  work.add(Promise.reject(new Error('no')), lane, true)
  await settle()
  expect([work.size, lane.busy, lane.settling]).toEqual([0, 0, 0])
  expect(errors).toEqual(['Work of the delivery plane failed'])
  giveUp.abort()
  work.add(Promise.reject(new Error('no')), lane)
  await settle()
  expect(errors).toHaveLength(1)
  expect(ended).toEqual([lane, lane])
})

it('finds no fault with what failed since its shard was lost meanwhile', async () => {
  const { work, lane, errors, epochs } = made()
  epochs.begin([lane.shard])
  const first = Promise.withResolvers<void>()
  const second = Promise.withResolvers<void>()
  epochs.runWithin(lane.shard, () => work.add(first.promise, lane))
  first.reject(new Error('broken'))
  await settle()
  expect(errors).toHaveLength(1)
  epochs.runWithin(lane.shard, () => work.add(second.promise, lane))
  epochs.end([lane.shard])
  second.reject(new Error('not ours any more'))
  await settle()
  expect(errors).toHaveLength(1)
  expect(lane.isIdle).toBe(true)
})
