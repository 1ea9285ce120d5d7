import { expect, it } from 'vitest'
import { settle } from '../../../test/support/fake-clock.ts'
import { QUEUE_ENDPOINT } from '../../../test/support/queue-deliveries.ts'
import { OwnershipEpochs } from '../../ha/ownership.ts'
import { BackgroundWork } from './context.ts'
import { EndpointQueue } from './endpoint-queue.ts'

function made() {
  const giveUp = new AbortController()
  const errors: string[] = []
  const ended: EndpointQueue[] = []
  const nothing = () => undefined
  const log = {
    info: nothing,
    warn: nothing,
    error: (_event: string, message: string) => void errors.push(message),
  }
  const epochs = new OwnershipEpochs()
  const shards = { owns: () => true, epochs }
  const work = new BackgroundWork({ giveUp: giveUp.signal, log, shards }, (queue) => void ended.push(queue))
  return { giveUp, errors, ended, work, epochs, queue: new EndpointQueue(QUEUE_ENDPOINT) }
}

it('keeps its lane from being idle until it has ended, and tells that', async () => {
  const { work, queue, ended } = made()
  const piece = Promise.withResolvers<void>()
  work.add(piece.promise, queue)
  expect([work.size, queue.busy, queue.settling, queue.isIdle]).toEqual([1, 1, 0, false])
  expect(ended).toEqual([])
  piece.resolve()
  await settle()
  expect([work.size, queue.busy, queue.isIdle]).toEqual([0, 0, true])
  expect(ended).toEqual([queue])
})

it('counts what settles beside the rest', async () => {
  const { work, queue } = made()
  const piece = Promise.withResolvers<void>()
  work.add(piece.promise, queue, true)
  work.add(Promise.resolve(), queue)
  expect([queue.busy, queue.settling]).toEqual([2, 1])
  await settle()
  expect([queue.busy, queue.settling]).toEqual([1, 1])
  piece.resolve()
  await settle()
  expect([queue.busy, queue.settling]).toEqual([0, 0])
})

it('has ended as well when it failed, and says so, unless it was given up', async () => {
  const { work, queue, ended, errors, giveUp } = made()
  work.add(Promise.reject(new Error('no')), queue, true)
  await settle()
  expect([work.size, queue.busy, queue.settling]).toEqual([0, 0, 0])
  expect(errors).toEqual(['delivery task failed'])
  giveUp.abort()
  work.add(Promise.reject(new Error('no')), queue)
  await settle()
  expect(errors).toHaveLength(1)
  expect(ended).toEqual([queue, queue])
})

it('finds no fault with what failed since its shard was lost meanwhile', async () => {
  const { work, queue, errors, epochs } = made()
  epochs.begin([queue.shard])
  const first = Promise.withResolvers<void>()
  const second = Promise.withResolvers<void>()
  epochs.runWithin(queue.shard, () => work.add(first.promise, queue))
  first.reject(new Error('broken'))
  await settle()
  expect(errors).toHaveLength(1)
  epochs.runWithin(queue.shard, () => work.add(second.promise, queue))
  epochs.end([queue.shard])
  second.reject(new Error('not ours any more'))
  await settle()
  expect(errors).toHaveLength(1)
  expect(queue.isIdle).toBe(true)
})
