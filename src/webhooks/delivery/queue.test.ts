import { describe, expect, it } from 'vitest'
import { QUEUE_ENDPOINT, queueDelivery } from '../../../test/support/queue-deliveries.ts'
import { EndpointQueue } from './queue.ts'

const DONE = { timedOut: false }
const TIMED_OUT = { timedOut: true }

function laneWith(policy: { ordered: boolean; concurrency?: number }, ...versions: number[]) {
  const lane = new EndpointQueue(QUEUE_ENDPOINT)
  lane.paused = false
  lane.setPolicy({ concurrency: 8, ...policy })
  const deliveries = versions.map((version) => queueDelivery(lane, version))
  for (const one of deliveries) lane.add(one)
  return { lane, deliveries }
}

function takeAll(lane: EndpointQueue): number[] {
  const taken: number[] = []
  for (let one = lane.startNext(); one; one = lane.startNext()) taken.push(one.version)
  return taken
}

describe('an unordered lane', () => {
  it('starts as many as its endpoint allows at a time, in the order in which they became due', () => {
    const { lane } = laneWith({ ordered: false, concurrency: 3 }, 5, 1, 4, 2)
    expect(takeAll(lane)).toEqual([5, 1, 4])
    lane.release(DONE)
    expect(takeAll(lane)).toEqual([2])
  })

  it('starts others while one waits for its next attempt', () => {
    const { lane, deliveries } = laneWith({ ordered: false, concurrency: 1 }, 1, 2)
    const [first] = deliveries
    if (!first) throw new Error('there is none')
    lane.startNext()
    first.stage = 'waiting'
    lane.release(DONE)
    expect(takeAll(lane)).toEqual([2])
    lane.release(DONE)
    lane.markDue(first)
    expect(takeAll(lane)).toEqual([1])
  })

  it('starts half as many at a time after a timeout, and twice as many after an answer', () => {
    const { lane } = laneWith({ ordered: false }, ...Array.from({ length: 100 }, (_, i) => i))
    const started = [TIMED_OUT, TIMED_OUT, DONE, DONE, DONE].map((how) => {
      takeAll(lane)
      lane.release(how)
      // The others have not ended yet: how many more may start shows how many there may be.
      return lane.inFlight + takeAll(lane).length
    })
    expect(started).toEqual([7, 6, 5, 8, 8])
  })

  it('never starts fewer than one at a time', () => {
    const { lane } = laneWith({ ordered: false, concurrency: 2 }, 1, 2, 3, 4, 5)
    takeAll(lane)
    for (let i = 0; i < 2; i += 1) lane.release(TIMED_OUT)
    expect(takeAll(lane)).toHaveLength(1)
    lane.release(TIMED_OUT)
    expect(takeAll(lane)).toHaveLength(1)
  })

  it('passes over what has ended while it was queued', () => {
    const { lane, deliveries } = laneWith({ ordered: false }, 1, 2)
    if (deliveries[0]) lane.remove(deliveries[0])
    expect(takeAll(lane)).toEqual([2])
    expect(lane.size).toBe(1)
  })
})

describe('an ordered lane', () => {
  it('starts the head of the log alone, in whatever order deliveries were taken in', () => {
    const { lane } = laneWith({ ordered: true }, 3, 1, 2)
    expect(takeAll(lane)).toEqual([1])
  })

  it('starts the next when the head has ended, not when its attempt has', () => {
    const { lane, deliveries } = laneWith({ ordered: true }, 1, 2)
    const [first] = deliveries
    if (!first) throw new Error('there is none')
    lane.startNext()
    lane.release(DONE)
    expect(takeAll(lane)).toEqual([])
    first.stage = 'waiting'
    expect(takeAll(lane)).toEqual([])
    lane.markDue(first)
    expect(takeAll(lane)).toEqual([1])
    lane.release(DONE)
    lane.remove(first)
    expect(takeAll(lane)).toEqual([2])
  })

  it('holds nothing that has ended, however long it lives', () => {
    const { lane } = laneWith({ ordered: true })
    for (let version = 1; version <= 5000; version += 1) {
      lane.add(queueDelivery(lane, version))
      const taken = lane.startNext()
      if (taken) lane.remove(taken)
      lane.release(DONE)
      expect(lane.listedCount).toBeLessThan(100)
    }
    expect(lane.startNext()).toBeUndefined()
    expect(lane.size).toBe(0)
    expect(lane.listedCount).toBe(0)
  })
})

it('a paused or closed lane starts nothing', () => {
  const { lane } = laneWith({ ordered: false }, 1)
  lane.paused = true
  expect(lane.startNext()).toBeUndefined()
  lane.paused = false
  lane.close()
  expect(lane.startNext()).toBeUndefined()
})

describe('a lane whose endpoint changes', () => {
  it('lets what is under way end before it starts in order', () => {
    const { lane, deliveries } = laneWith({ ordered: false, concurrency: 2 }, 2, 3, 1)
    takeAll(lane)
    lane.setPolicy({ ordered: true, concurrency: 2 })
    expect(takeAll(lane)).toEqual([])
    for (const one of deliveries.slice(0, 2)) {
      lane.remove(one)
      lane.release(DONE)
    }
    expect(takeAll(lane)).toEqual([1])
  })

  it('starts all that are queued when it needs no order any more', () => {
    const { lane, deliveries } = laneWith({ ordered: true }, 1, 2, 3, 4)
    lane.startNext()
    if (deliveries[2]) deliveries[2].stage = 'waiting'
    lane.setPolicy({ ordered: false, concurrency: 8 })
    expect(takeAll(lane)).toEqual([2, 4])
  })
})

describe('a delivery that is passed by', () => {
  it('is a member still, and those behind it go on', () => {
    const { lane, deliveries } = laneWith({ ordered: true }, 1, 2)
    const [first, second] = deliveries
    if (!first || !second) throw new Error('there are two')
    expect(lane.startNext()).toBe(first)
    lane.pass(first)
    lane.release(DONE)
    expect(lane.startNext()).toBe(second)
    expect([...lane.members()]).toEqual([first, second])
    expect(lane.size).toBe(2)
    lane.remove(first)
    expect(lane.size).toBe(1)
  })

  it('is the head again when it is restored', () => {
    const { lane, deliveries } = laneWith({ ordered: true }, 1, 2, 3)
    const [first, second, third] = deliveries
    if (!first || !second || !third) throw new Error('there are three')
    lane.startNext()
    lane.pass(first)
    lane.release(DONE)
    first.stage = 'queued'
    lane.restore(first)
    expect(takeAll(lane)).toEqual([1])
    lane.remove(first)
    lane.release(DONE)
    expect(takeAll(lane)).toEqual([2])
  })

  it('that nobody has trimmed yet has its place once', () => {
    const { lane, deliveries } = laneWith({ ordered: true }, 1, 2, 3)
    const [first, second] = deliveries
    if (!first || !second) throw new Error('there are three')
    lane.pass(second)
    second.stage = 'queued'
    lane.restore(second)
    expect(lane.listedCount).toBe(3)
    for (const version of [1, 2, 3]) {
      const taken = lane.startNext()
      expect(taken?.version).toBe(version)
      if (taken) lane.remove(taken)
      lane.release(DONE)
    }
  })

  it('waits with the others when the lane is left, and has its place when it is driven again', () => {
    const { lane, deliveries } = laneWith({ ordered: true }, 1, 2)
    const [first] = deliveries
    if (!first) throw new Error('there are two')
    lane.startNext()
    lane.pass(first)
    lane.release(DONE)
    lane.detach()
    expect(deliveries.map(({ stage }) => stage)).toEqual(['waiting', 'waiting'])
    for (const one of deliveries) lane.markDue(one)
    expect(takeAll(lane)).toEqual([1])
  })
})
