import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Delivery, Stage } from './delivery.ts'
import { Lane } from './lane.ts'

const LANE = { namespace: 'acme', name: 'one', uid: 'uid' }
const DONE = { timedOut: false }
const TIMED_OUT = { timedOut: true }

function delivery(lane: Lane, version: number, stage: Stage = 'queued'): Delivery {
  return {
    name: `event-${version}`,
    lane,
    version,
    index: 0,
    acceptedAt: 0,
    attempts: 0,
    dueAt: 0,
    stage,
    left: false,
    home: { kind: 'object' },
  }
}

function laneWith(policy: { ordered: boolean; concurrency?: number }, ...versions: number[]) {
  const lane = new Lane(LANE)
  lane.paused = false
  lane.setPolicy({ concurrency: 8, ...policy })
  const deliveries = versions.map((version) => delivery(lane, version))
  for (const one of deliveries) lane.add(one)
  return { lane, deliveries }
}

function takeAll(lane: Lane): number[] {
  const taken: number[] = []
  for (let one = lane.take(); one; one = lane.take()) taken.push(one.version)
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
    lane.take()
    first.stage = 'waiting'
    lane.release(DONE)
    expect(takeAll(lane)).toEqual([2])
    lane.release(DONE)
    lane.due(first)
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
    lane.take()
    lane.release(DONE)
    expect(takeAll(lane)).toEqual([])
    first.stage = 'waiting'
    expect(takeAll(lane)).toEqual([])
    lane.due(first)
    expect(takeAll(lane)).toEqual([1])
    lane.release(DONE)
    lane.remove(first)
    expect(takeAll(lane)).toEqual([2])
  })

  it('holds nothing that has ended, however long it lives', () => {
    const { lane } = laneWith({ ordered: true })
    for (let version = 1; version <= 5000; version += 1) {
      lane.add(delivery(lane, version))
      const taken = lane.take()
      if (taken) lane.remove(taken)
      lane.release(DONE)
      expect(lane.held).toBeLessThan(100)
    }
    expect(lane.take()).toBeUndefined()
    expect(lane.size).toBe(0)
    expect(lane.held).toBe(0)
  })
})

it('a paused or closed lane starts nothing', () => {
  const { lane } = laneWith({ ordered: false }, 1)
  lane.paused = true
  expect(lane.take()).toBeUndefined()
  lane.paused = false
  lane.close()
  expect(lane.take()).toBeUndefined()
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
    lane.take()
    if (deliveries[2]) deliveries[2].stage = 'waiting'
    lane.setPolicy({ ordered: false, concurrency: 8 })
    expect(takeAll(lane)).toEqual([2, 4])
  })
})

/** A lane beside what is known of its deliveries; every start is checked. */
class Model {
  readonly lane = new Lane(LANE)
  readonly all: Delivery[] = []
  readonly #queue: Delivery[] = []
  #underWay = 0
  #ordered = false
  #concurrency = 8
  #added = 0

  constructor() {
    this.lane.paused = false
  }

  add(jump: number, waiting: boolean): void {
    this.#added += 1
    // Mostly in the log's order, now and then from further back.
    const version = this.#added * 10 - jump * 25
    if (this.all.some((other) => other.version === version)) return
    const one = delivery(this.lane, version, waiting ? 'waiting' : 'queued')
    this.all.push(one)
    if (!waiting) this.#queue.push(one)
    this.lane.add(one)
  }

  start(): void {
    const taken = this.lane.take()
    if (!taken) {
      expect(this.#mayStart()).toBe(false)
      return
    }
    expect(this.lane.paused).toBe(false)
    if (this.#ordered) {
      expect(this.#underWay).toBe(0)
      expect(taken).toBe(this.#head())
    } else {
      expect(this.#underWay).toBeLessThan(this.#concurrency)
    }
    this.#queue.splice(this.#queue.indexOf(taken), 1)
    this.#underWay += 1
  }

  /** An attempt ends; `kept` is still being stored, and stays as it is. */
  release(which: number, how: 'ended' | 'waiting' | 'kept'): void {
    const sending = this.all.filter(({ stage }) => stage === 'sending')
    const one = sending[which % Math.max(1, sending.length)]
    if (!one || this.#underWay === 0) return
    if (how === 'ended') this.lane.remove(one)
    if (how === 'waiting') one.stage = 'waiting'
    this.#underWay -= 1
    this.lane.release(DONE)
    expect(this.lane.inFlight).toBe(this.#underWay)
  }

  /** What was being stored beyond its attempt is stored. */
  settle(): void {
    const sending = this.all.filter(({ stage }) => stage === 'sending')
    for (const one of sending.slice(this.#underWay)) this.lane.remove(one)
  }

  due(which: number): void {
    const one = this.all[which % Math.max(1, this.all.length)]
    if (!one) return
    if (one.stage === 'waiting') this.#queue.push(one)
    this.lane.due(one)
  }

  end(which: number): void {
    const one = this.all[which % Math.max(1, this.all.length)]
    if (!one || (one.stage !== 'queued' && one.stage !== 'waiting')) return
    const at = this.#queue.indexOf(one)
    if (at >= 0) this.#queue.splice(at, 1)
    this.lane.remove(one)
  }

  change(ordered: boolean, concurrency: number): void {
    this.#ordered = ordered
    this.#concurrency = concurrency
    this.lane.setPolicy({ ordered, concurrency })
  }

  /** Everything ends in the end. */
  finish(): void {
    this.lane.paused = false
    for (let round = 0; round < 10 * this.all.length + 10; round += 1) {
      for (let i = 0; i < this.all.length; i += 1) this.due(i)
      this.start()
      this.release(0, 'ended')
      this.settle()
    }
    expect(this.all.filter(({ stage }) => stage !== 'ended')).toEqual([])
    expect(this.lane.size).toBe(0)
  }

  #head(): Delivery | undefined {
    const left = this.all.filter(({ stage }) => stage !== 'ended')
    return left.sort((a, b) => a.version - b.version).find((one) => one.stage !== 'ended')
  }

  #mayStart(): boolean {
    if (this.lane.paused) return false
    if (this.#ordered) return this.#underWay === 0 && this.#head()?.stage === 'queued'
    return this.#underWay < this.#concurrency && this.#queue.length > 0
  }
}

type Step = (model: Model) => void

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.tuple(fc.nat(4), fc.boolean()).map(
      ([j, w]): Step =>
        (m) =>
          m.add(j % 2, w),
    ),
  },
  { weight: 6, arbitrary: fc.constant<Step>((model) => model.start()) },
  {
    weight: 5,
    arbitrary: fc.tuple(fc.nat(), fc.constantFrom('ended' as const, 'waiting' as const, 'kept' as const)).map(
      ([which, how]): Step =>
        (model) =>
          model.release(which, how),
    ),
  },
  {
    weight: 3,
    arbitrary: fc.nat().map(
      (which): Step =>
        (model) =>
          model.due(which),
    ),
  },
  {
    weight: 1,
    arbitrary: fc.nat().map(
      (which): Step =>
        (model) =>
          model.end(which),
    ),
  },
  { weight: 1, arbitrary: fc.constant<Step>((model) => model.settle()) },
  {
    weight: 1,
    arbitrary: fc.tuple(fc.boolean(), fc.integer({ min: 1, max: 4 })).map(
      ([ordered, concurrency]): Step =>
        (model) =>
          model.change(ordered, concurrency),
    ),
  },
  {
    weight: 1,
    arbitrary: fc.boolean().map(
      (paused): Step =>
        (model) => {
          model.lane.paused = paused
        },
    ),
  },
)

it('whatever comes, an ordered lane starts its head alone, an unordered one not too many, and nothing is lost', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      const model = new Model()
      for (const take of steps) take(model)
      model.finish()
    }),
    { numRuns: 500 },
  )
})
