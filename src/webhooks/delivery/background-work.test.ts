import { describe, expect, it } from 'vitest'
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

describe('work that waits for its turn', () => {
  const endpoint = (namespace: string) =>
    new EndpointQueue({ namespace, name: 'one', uid: `uid of ${namespace}` })

  it.each([
    { organizations: 1, each: 5000 },
    { organizations: 2, each: 3000 },
    { organizations: 5, each: 2000 },
    { organizations: 20, each: 300 },
  ])(
    'of $organizations organizations with $each each stops no other one',
    async ({ organizations, each }) => {
      const { work } = made()
      const never = new Promise<void>(() => undefined)
      let started = 0
      const start = () => {
        started += 1
        return never
      }
      const names = Array.from({ length: organizations }, (_, number) => `many-${number}`)
      const queues = names.map(endpoint)
      for (const queue of queues)
        for (let number = 0; number < each; number += 1) work.addInTurn(start, queue)
      await settle()
      expect(started).toBeGreaterThan(100)
      expect(started).toBeLessThanOrEqual(128)
      expect([...names, 'other'].every((name) => work.hasRoom(name))).toBe(true)
      expect(work.size).toBe(organizations * each)
      expect(queues.every(({ busy }) => busy === each)).toBe(true)
    },
  )

  it('is done in turns by organization, whole, and then its lane is idle', async () => {
    const { work, ended, errors } = made()
    const done: string[] = []
    const loud = endpoint('loud')
    const quiet = endpoint('quiet')
    const act = (queue: EndpointQueue) => async () => {
      done.push(queue.endpoint.namespace)
      const isThird = done.length === 3
      await settle()
      if (isThird) throw new Error('no')
    }
    for (let number = 0; number < 1000; number += 1) work.addInTurn(act(loud), loud)
    for (let number = 0; number < 5; number += 1) work.addInTurn(act(quiet), quiet)
    for (let round = 0; round < 200; round += 1) await settle()
    expect(done.lastIndexOf('quiet')).toBeLessThan(150)
    expect([done.length, ended.length, work.size]).toEqual([1005, 1005, 0])
    expect([loud.isIdle, quiet.isIdle]).toEqual([true, true])
    expect(errors).toHaveLength(1)
  })

  it('is not done once its shard was lost, even if that was taken over again, and each new work is done once', async () => {
    const { work, epochs, queue, errors } = made()
    const blocking = Promise.withResolvers<void>()
    const done: string[] = []
    const add = (name: string, count: number) => {
      for (let number = 0; number < count; number += 1)
        epochs.runWithin(queue.shard, () =>
          work.addInTurn(async () => {
            done.push(`${name} ${epochs.mayWrite}`)
            await blocking.promise
          }, queue),
        )
    }
    epochs.begin([queue.shard])
    add('first', 500)
    await settle()
    const inTime = done.length
    epochs.begin([queue.shard])
    add('second', 10)
    blocking.resolve()
    for (let round = 0; round < 200; round += 1) await settle()
    expect(done.filter((name) => name === 'first true')).toHaveLength(inTime)
    expect(done.slice(inTime)).toEqual(Array.from({ length: 10 }, () => 'second true'))
    expect([queue.isIdle, work.size, errors]).toEqual([true, 0, []])
  })

  it('is not done once the process ends', async () => {
    const { work, giveUp, queue } = made()
    const blocking = Promise.withResolvers<void>()
    let started = 0
    const start = () => {
      started += 1
      return blocking.promise
    }
    for (let number = 0; number < 500; number += 1) work.addInTurn(start, queue)
    await settle()
    const inTime = started
    giveUp.abort()
    blocking.resolve()
    for (let round = 0; round < 200; round += 1) await settle()
    expect([started, work.size, queue.isIdle]).toEqual([inTime, 0, true])
  })
})

it.each([
  { given: 4096, want: true },
  { given: 5000, want: true },
  { given: 100_000, want: true },
])('$given pieces of one organization leave room to others', ({ given, want }) => {
  const { work, queue } = made()
  for (let number = 0; number < given; number += 1) work.add(new Promise(() => undefined), queue)
  expect([work.hasRoom('other'), work.hasRoom(queue.endpoint.namespace)]).toEqual([want, false])
})
