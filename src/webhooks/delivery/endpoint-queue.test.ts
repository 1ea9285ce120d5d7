import { describe, expect, it } from 'vitest'
import { QUEUE_ENDPOINT, queueDelivery } from '../../../test/support/queue-deliveries.ts'
import { EndpointQueue } from './endpoint-queue.ts'

const DONE = { tookTooLong: false }
const TIMED_OUT = { tookTooLong: true }

function queueWith(policy: { ordered: boolean; concurrency?: number }, ...versions: number[]) {
  const queue = new EndpointQueue(QUEUE_ENDPOINT)
  queue.paused = false
  queue.setPolicy({ concurrency: 8, ...policy })
  const deliveries = versions.map((version) => queueDelivery(queue, version))
  for (const one of deliveries) queue.add(one)
  return { queue, deliveries }
}

function takeAll(queue: EndpointQueue): number[] {
  const taken: number[] = []
  for (let one = queue.startNext(); one; one = queue.startNext()) taken.push(one.version)
  return taken
}

describe('an unordered lane', () => {
  it('starts as many as its endpoint allows at a time, in the order in which they became due', () => {
    const { queue } = queueWith({ ordered: false, concurrency: 3 }, 5, 1, 4, 2)
    expect(takeAll(queue)).toEqual([5, 1, 4])
    queue.release(DONE)
    expect(takeAll(queue)).toEqual([2])
  })

  it('starts others while one waits for its next attempt', () => {
    const { queue, deliveries } = queueWith({ ordered: false, concurrency: 1 }, 1, 2)
    const [first] = deliveries
    if (!first) throw new Error('there is none')
    queue.startNext()
    first.stage = 'waiting'
    queue.release(DONE)
    expect(takeAll(queue)).toEqual([2])
    queue.release(DONE)
    queue.markDue(first)
    expect(takeAll(queue)).toEqual([1])
  })

  it('starts half as many at a time after a timeout, and twice as many after an answer', () => {
    const { queue } = queueWith({ ordered: false }, ...Array.from({ length: 100 }, (_, i) => i))
    const started = [TIMED_OUT, TIMED_OUT, DONE, DONE, DONE].map((how) => {
      takeAll(queue)
      queue.release(how)
      // The others have not ended yet: how many more may start shows how many there may be.
      return queue.inFlight + takeAll(queue).length
    })
    expect(started).toEqual([7, 6, 5, 8, 8])
  })

  it('never starts fewer than one at a time', () => {
    const { queue } = queueWith({ ordered: false, concurrency: 2 }, 1, 2, 3, 4, 5)
    takeAll(queue)
    for (let i = 0; i < 2; i += 1) queue.release(TIMED_OUT)
    expect(takeAll(queue)).toHaveLength(1)
    queue.release(TIMED_OUT)
    expect(takeAll(queue)).toHaveLength(1)
  })

  it('passes over what has ended while it was queued', () => {
    const { queue, deliveries } = queueWith({ ordered: false }, 1, 2)
    if (deliveries[0]) queue.remove(deliveries[0])
    expect(takeAll(queue)).toEqual([2])
    expect(queue.size).toBe(1)
  })
})

describe('an ordered lane', () => {
  it('starts the head of the log alone, in whatever order deliveries were taken in', () => {
    const { queue } = queueWith({ ordered: true }, 3, 1, 2)
    expect(takeAll(queue)).toEqual([1])
  })

  it('starts the next when the head has ended, not when its attempt has', () => {
    const { queue, deliveries } = queueWith({ ordered: true }, 1, 2)
    const [first] = deliveries
    if (!first) throw new Error('there is none')
    queue.startNext()
    queue.release(DONE)
    expect(takeAll(queue)).toEqual([])
    first.stage = 'waiting'
    expect(takeAll(queue)).toEqual([])
    queue.markDue(first)
    expect(takeAll(queue)).toEqual([1])
    queue.release(DONE)
    queue.remove(first)
    expect(takeAll(queue)).toEqual([2])
  })

  it('holds nothing that has ended, however long it lives', () => {
    const { queue } = queueWith({ ordered: true })
    for (let version = 1; version <= 5000; version += 1) {
      queue.add(queueDelivery(queue, version))
      const taken = queue.startNext()
      if (taken) queue.remove(taken)
      queue.release(DONE)
      expect(queue.listedCount).toBeLessThan(100)
    }
    expect(queue.startNext()).toBeUndefined()
    expect(queue.size).toBe(0)
    expect(queue.listedCount).toBe(0)
  })
})

it('a paused or closed lane starts nothing', () => {
  const { queue } = queueWith({ ordered: false }, 1)
  queue.paused = true
  expect(queue.startNext()).toBeUndefined()
  queue.paused = false
  queue.close()
  expect(queue.startNext()).toBeUndefined()
})

describe('a lane whose endpoint changes', () => {
  it('lets what is under way end before it starts in order', () => {
    const { queue, deliveries } = queueWith({ ordered: false, concurrency: 2 }, 2, 3, 1)
    takeAll(queue)
    queue.setPolicy({ ordered: true, concurrency: 2 })
    expect(takeAll(queue)).toEqual([])
    for (const one of deliveries.slice(0, 2)) {
      queue.remove(one)
      queue.release(DONE)
    }
    expect(takeAll(queue)).toEqual([1])
  })

  it('starts all that are queued when it needs no order any more', () => {
    const { queue, deliveries } = queueWith({ ordered: true }, 1, 2, 3, 4)
    queue.startNext()
    if (deliveries[2]) deliveries[2].stage = 'waiting'
    queue.setPolicy({ ordered: false, concurrency: 8 })
    expect(takeAll(queue)).toEqual([2, 4])
  })
})

describe('a delivery that is passed by', () => {
  it('is a member still, and those behind it go on', () => {
    const { queue, deliveries } = queueWith({ ordered: true }, 1, 2)
    const [first, second] = deliveries
    if (!first || !second) throw new Error('there are two')
    expect(queue.startNext()).toBe(first)
    queue.pass(first)
    queue.release(DONE)
    expect(queue.startNext()).toBe(second)
    expect([...queue.members()]).toEqual([first, second])
    expect(queue.size).toBe(2)
    queue.remove(first)
    expect(queue.size).toBe(1)
  })

  it('is the head again when it is restored', () => {
    const { queue, deliveries } = queueWith({ ordered: true }, 1, 2, 3)
    const [first, second, third] = deliveries
    if (!first || !second || !third) throw new Error('there are three')
    queue.startNext()
    queue.pass(first)
    queue.release(DONE)
    first.stage = 'queued'
    queue.restore(first)
    expect(takeAll(queue)).toEqual([1])
    queue.remove(first)
    queue.release(DONE)
    expect(takeAll(queue)).toEqual([2])
  })

  it('that nobody has trimmed yet has its place once', () => {
    const { queue, deliveries } = queueWith({ ordered: true }, 1, 2, 3)
    const [first, second] = deliveries
    if (!first || !second) throw new Error('there are three')
    queue.pass(second)
    second.stage = 'queued'
    queue.restore(second)
    expect(queue.listedCount).toBe(3)
    for (const version of [1, 2, 3]) {
      const taken = queue.startNext()
      expect(taken?.version).toBe(version)
      if (taken) queue.remove(taken)
      queue.release(DONE)
    }
  })

  it('waits with the others when the lane is left, and has its place when it is driven again', () => {
    const { queue, deliveries } = queueWith({ ordered: true }, 1, 2)
    const [first] = deliveries
    if (!first) throw new Error('there are two')
    queue.startNext()
    queue.pass(first)
    queue.release(DONE)
    queue.detach()
    expect(deliveries.map(({ stage }) => stage)).toEqual(['waiting', 'waiting'])
    for (const one of deliveries) queue.markDue(one)
    expect(takeAll(queue)).toEqual([1])
  })
})
