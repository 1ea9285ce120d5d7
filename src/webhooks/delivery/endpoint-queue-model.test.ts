import { expect, it } from 'vitest'
import { fc } from '../../../test/support/fast-check.ts'
import { QUEUE_ENDPOINT, queueDelivery } from '../../../test/support/queue-deliveries.ts'
import { type Delivery, EndpointQueue } from './endpoint-queue.ts'

const DONE = { tookTooLong: false }

/** A lane beside what is known of its deliveries; every start is checked. */
class Model {
  readonly queue = new EndpointQueue(QUEUE_ENDPOINT)
  readonly all: Delivery[] = []
  readonly #queue: Delivery[] = []
  #underWay = 0
  #ordered = false
  #concurrency = 8
  #added = 0

  constructor() {
    this.queue.paused = false
  }

  add(jump: number, waiting: boolean): void {
    this.#added += 1
    // Mostly in the log's order, now and then from further back.
    const version = this.#added * 10 - jump * 25
    if (this.all.some((other) => other.version === version)) return
    const one = queueDelivery(this.queue, version, waiting ? 'waiting' : 'queued')
    this.all.push(one)
    if (!waiting) this.#queue.push(one)
    this.queue.add(one)
  }

  start(): void {
    const taken = this.queue.startNext()
    if (!taken) {
      expect(this.#mayStart()).toBe(false)
      return
    }
    expect(this.queue.paused).toBe(false)
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
    if (how === 'ended') this.queue.remove(one)
    if (how === 'waiting') one.stage = 'waiting'
    this.#underWay -= 1
    this.queue.release(DONE)
    expect(this.queue.inFlight).toBe(this.#underWay)
  }

  /** What was being stored beyond its attempt is stored. */
  settle(): void {
    const sending = this.all.filter(({ stage }) => stage === 'sending')
    for (const one of sending.slice(this.#underWay)) this.queue.remove(one)
  }

  due(which: number): void {
    const one = this.all[which % Math.max(1, this.all.length)]
    if (!one) return
    if (one.stage === 'waiting') this.#queue.push(one)
    this.queue.markDue(one)
  }

  end(which: number): void {
    const one = this.all[which % Math.max(1, this.all.length)]
    if (!one || (one.stage !== 'queued' && one.stage !== 'waiting')) return
    const at = this.#queue.indexOf(one)
    if (at >= 0) this.#queue.splice(at, 1)
    this.queue.remove(one)
  }

  change(ordered: boolean, concurrency: number): void {
    this.#ordered = ordered
    this.#concurrency = concurrency
    this.queue.setPolicy({ ordered, concurrency })
  }

  /** Everything ends in the end. */
  finish(): void {
    this.queue.paused = false
    for (let round = 0; round < 10 * this.all.length + 10; round += 1) {
      for (let i = 0; i < this.all.length; i += 1) this.due(i)
      this.start()
      this.release(0, 'ended')
      this.settle()
    }
    expect(this.all.filter(({ stage }) => stage !== 'ended')).toEqual([])
    expect(this.queue.size).toBe(0)
  }

  #head(): Delivery | undefined {
    const left = this.all.filter(({ stage }) => stage !== 'ended')
    return left.sort((a, b) => a.version - b.version).find((one) => one.stage !== 'ended')
  }

  #mayStart(): boolean {
    if (this.queue.paused) return false
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
          model.queue.paused = paused
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
