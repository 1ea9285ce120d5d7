import { expect, it } from 'vitest'
import { EngineBed } from '../../../test/support/engine-bed.ts'
import { settle } from '../../../test/support/fake-clock.ts'
import type { LogRecord } from '../../apis/outcome-segment.ts'
import { OwnershipEpochs } from '../../ha/ownership.ts'
import { ApiError } from '../../kube/client.ts'
import type { DeliveryObjects } from './objects.ts'
import { PromotionQueue } from './promotion.ts'

const SECOND = 1000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE

/** An entry of the log whose object cannot be made yet. */
async function waiting() {
  const bed = new EngineBed()
  const one = await bed.endpoint('one', { state: 'disabled' })
  bed.start()
  const segment = await bed.append(bed.event([one]))
  bed.follower.addSegment(segment)
  const delivery = bed.segments.at(segment.version)?.open.get(0)?.delivery
  if (delivery?.storage.kind !== 'log') throw new Error('it is no entry of the log')
  // The plane of the bed leaves it to the queue of the test.
  bed.owns = () => false
  const { shard } = delivery.queue
  const epochs = new OwnershipEpochs()
  epochs.begin([shard])
  const mayWrite: boolean[] = []
  const store: DeliveryObjects['store'] = async () => {
    mayWrite.push(epochs.mayWrite)
    throw new ApiError('Unavailable', 'down')
  }
  const objects = { store } as DeliveryObjects
  const queue = new PromotionQueue({
    ...bed.engine.ctx,
    objects,
    shards: { owns: () => true, epochs: epochs },
  })
  return { bed, queue, delivery, home: delivery.storage, epochs, shard, mayWrite }
}

it('an object that could not be made while its shard was held is not made when another replica may have it', async () => {
  const { bed, queue, delivery, home, epochs, shard, mayWrite } = await waiting()
  queue.add(delivery, home)
  await bed.elapse(SECOND)
  epochs.end([shard])
  await bed.elapse(MINUTE)
  expect(mayWrite).toEqual([true])
})

it('an object that could not be made is asked for again and again, ever more rarely', async () => {
  const { bed, queue, delivery, home, mayWrite } = await waiting()
  const triesIn = async (ms: number) => {
    const before = mayWrite.length
    for (let elapsed = 0; elapsed < ms; elapsed += SECOND) {
      queue.add(delivery, home)
      await bed.elapse(SECOND)
    }
    return mayWrite.length - before
  }
  expect(await triesIn(30 * SECOND)).toBe(4)
  expect(await triesIn(HOUR)).toBeLessThan(65)
  expect(mayWrite).not.toContain(false)
})

it('it is asked for anew where the shard has come back', async () => {
  const { bed, queue, delivery, home, epochs, shard, mayWrite } = await waiting()
  queue.add(delivery, home)
  await bed.elapse(SECOND)
  epochs.end([shard])
  await bed.elapse(MINUTE)
  epochs.begin([shard])
  queue.add(delivery, home)
  await bed.elapse(SECOND)
  expect(mayWrite).toEqual([true, true])
})

it('objects are created once that is recorded, and others while the record of those that exist is written, up to a bound', async () => {
  const bed = new EngineBed()
  const one = await bed.endpoint('one', { state: 'disabled' })
  bed.start()
  const segment = await bed.append(...Array.from({ length: 200 }, () => bed.event([one])))
  bed.follower.addSegment(segment)
  bed.owns = () => false
  const writing: { kind: string; end: () => void }[] = []
  const end = (kind: string, count: number) => {
    for (const one of writing.filter((one) => one.kind === kind).slice(0, count)) {
      writing.splice(writing.indexOf(one), 1)
      one.end()
    }
  }
  const kinds = () => writing.map(({ kind }) => kind)
  let made = 0
  const objects = {
    store: async () => {
      made += 1
      return { kind: 'stored', object: { version: '1', status: undefined } }
    },
  } as unknown as DeliveryObjects
  const outcomes = {
    ...bed.engine.ctx.outcomes,
    record: ({ kind }: LogRecord) =>
      new Promise<number>((resolve) => writing.push({ kind, end: () => resolve(1) })),
  }
  const queue = new PromotionQueue({ ...bed.engine.ctx, objects, outcomes, shards: { owns: () => true } })
  for (const { delivery } of bed.segments.at(segment.version)?.open.values() ?? [])
    if (delivery?.storage.kind === 'log') queue.add(delivery, delivery.storage)
  await settle()
  expect([made, new Set(kinds()), writing.length]).toEqual([0, new Set(['creating']), 116])
  end('creating', 100)
  await settle(50)
  expect(made).toBe(100)
  end('moved', 10)
  await settle(50)
  expect([made, kinds().filter((kind) => kind === 'creating').length]).toEqual([100, 26])
})

it('no object is created for an entry whose attempt has ended while it waited for its turn', async () => {
  const bed = new EngineBed()
  const one = await bed.endpoint('one', { state: 'disabled' })
  bed.start()
  const segment = await bed.append(...Array.from({ length: 20 }, () => bed.event([one])))
  bed.follower.addSegment(segment)
  const made: string[] = []
  const created = Promise.withResolvers<void>()
  const store: DeliveryObjects['store'] = async ({ name }) => {
    made.push(name)
    await created.promise
    return { kind: 'stored', object: { version: '1', status: undefined } }
  }
  const outcomes = { ...bed.engine.ctx.outcomes, record: async () => 1 }
  const objects = { store } as DeliveryObjects
  const queue = new PromotionQueue({ ...bed.engine.ctx, objects, outcomes, shards: { owns: () => true } })
  const open = [...(bed.segments.at(segment.version)?.open.values() ?? [])]
  for (const { delivery } of open) if (delivery?.storage.kind === 'log') queue.add(delivery, delivery.storage)
  await settle(50)
  expect(made).toHaveLength(15)
  const waiting = open.filter(({ entry }) => !made.includes(entry.event.id))
  for (const { delivery } of waiting)
    if (delivery?.storage.kind === 'log') delivery.storage.status = { state: 'succeeded', attemptCount: 1 }
  created.resolve()
  await settle(50)
  expect(made).toHaveLength(15)
})
