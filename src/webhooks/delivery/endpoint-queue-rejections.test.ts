import { describe, expect, it } from 'vitest'
import { fc } from '../../../test/support/fast-check.ts'
import { QUEUE_ENDPOINT, queueDelivery } from '../../../test/support/queue-deliveries.ts'
import { type Delivery, EndpointQueue, IN_OBJECT, type InLog } from './endpoint-queue.ts'

/** Only what the queue reads of it. */
function inLog(): InLog {
  return { kind: 'log' } as InLog
}

function queueWith(count: number) {
  const queue = new EndpointQueue(QUEUE_ENDPOINT)
  const deliveries = Array.from({ length: count }, (_, version) => {
    const delivery = queueDelivery(queue, version)
    delivery.storage = inLog()
    queue.add(delivery)
    return delivery
  })
  return { queue, deliveries }
}

function reject(delivery: Delivery | undefined, message: string): void {
  if (delivery?.storage.kind !== 'log') throw new Error('there is no such delivery in the log')
  delivery.queue.markRejected(delivery, delivery.storage, { since: 1, message })
}

/** Counts how often the storage of any of them is looked at. */
function countReads(deliveries: readonly Delivery[]): () => number {
  let reads = 0
  for (const delivery of deliveries) {
    const { storage } = delivery
    Object.defineProperty(delivery, 'storage', {
      get: () => {
        reads += 1
        return storage
      },
    })
  }
  return () => reads
}

const STEPS = {
  reject: (delivery: Delivery) => {
    if (delivery.storage.kind === 'log') reject(delivery, `quota ${delivery.version}`)
  },
  end: (delivery: Delivery) => delivery.queue.remove(delivery),
  create: (delivery: Delivery) => {
    delivery.storage = IN_OBJECT
  },
  reset: (delivery: Delivery) => {
    delivery.storage = inLog()
  },
  none: () => undefined,
}

function messageOf({ storage }: Delivery): string[] {
  return storage.kind === 'log' && storage.rejection ? [storage.rejection.message] : []
}

describe('the rejection of a queue', () => {
  it.each([0, 1, 10, 10_000])('looks at none of %i deliveries while no object is rejected', (count) => {
    const { queue, deliveries } = queueWith(count)
    const reads = countReads(deliveries)
    expect([queue.rejection, reads()]).toEqual([undefined, 0])
  })

  it.each([0, 1, 4999, 9999])(
    'looks at one of 10,000 deliveries if the object of number %i is rejected',
    (at) => {
      const { queue, deliveries } = queueWith(10_000)
      reject(deliveries[at], 'quota')
      const reads = countReads(deliveries)
      expect([queue.rejection, reads()]).toEqual(['quota', 1])
    },
  )

  it.each<[string, (delivery: Delivery) => void]>([
    ['it has ended', (delivery) => delivery.queue.remove(delivery)],
    ['its object exists', (delivery) => void Object.assign(delivery, { storage: IN_OBJECT })],
    ['its shard has changed hands', (delivery) => void Object.assign(delivery, { storage: inLog() })],
    [
      'it has ended after its object was created',
      (delivery) => {
        delivery.storage = IN_OBJECT
        delivery.queue.remove(delivery)
      },
    ],
  ])('is over when %s, and stays that of others', (_, end) => {
    const { queue, deliveries } = queueWith(3)
    const [first, second] = deliveries
    reject(second, 'policy')
    reject(first, 'quota')
    expect(queue.rejection).toBe('policy')
    if (second) end(second)
    expect(queue.rejection).toBe('quota')
    if (first) end(first)
    expect(queue.rejection).toBeUndefined()
    // Nothing is left to look at.
    const reads = countReads(deliveries)
    expect([queue.rejection, reads()]).toEqual([undefined, 0])
  })

  it('begins again when an object is rejected after its shard has changed hands', () => {
    const { queue, deliveries } = queueWith(1)
    const [delivery] = deliveries
    if (!delivery) throw new Error('there is none')
    reject(delivery, 'quota')
    delivery.storage = inLog()
    expect(queue.rejection).toBeUndefined()
    reject(delivery, 'policy')
    expect(queue.rejection).toBe('policy')
  })

  it('ignores a rejection of what has ended or moved meanwhile', () => {
    const { queue, deliveries } = queueWith(2)
    const [ended, moved] = deliveries
    const before = inLog()
    if (ended) queue.remove(ended)
    for (const delivery of [ended, moved])
      if (delivery) queue.markRejected(delivery, before, { since: 1, message: 'quota' })
    expect(queue.rejection).toBeUndefined()
  })

  it('is there whenever a look at all deliveries finds one', () => {
    const names = Object.keys(STEPS) as (keyof typeof STEPS)[]
    const step = fc.tuple(fc.nat(5), fc.constantFrom(...names))
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
        const { queue, deliveries } = queueWith(6)
        for (const [at, name] of steps) {
          const delivery = deliveries[at]
          if (delivery) STEPS[name](delivery)
          const found = [...queue.members()].flatMap(messageOf)
          const { rejection } = queue
          expect(rejection === undefined ? [] : found).toEqual(found)
          expect([undefined, ...found]).toContain(rejection)
        }
      }),
    )
  })
})
