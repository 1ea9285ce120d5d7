import { describe, expect, it } from 'vitest'
import { FakeClock, fixedRandom, settle } from '../../test/support/fake-clock.ts'
import { fc } from '../../test/support/fast-check.ts'
import { type ConcurrencyGroupOf, WorkQueue } from './workqueue.ts'

const log = { info() {}, warn() {}, error() {} }

function start(fraction = 0, laneOf?: ConcurrencyGroupOf) {
  const clock = new FakeClock()
  return {
    clock,
    queue: new WorkQueue({ clock, random: fixedRandom(fraction), log, concurrencyGroupOf: laneOf }),
  }
}

describe('a work queue', () => {
  it('gives out a key once, however often it was added', async () => {
    const { queue } = start()
    queue.add('a')
    queue.add('b')
    queue.add('a')
    expect(queue.depth).toBe(2)
    expect([await queue.get(), await queue.get()]).toEqual(['a', 'b'])
    expect(queue.depth).toBe(0)
  })

  it('gives a key that was added while it was worked on out again, but only when that work is done', async () => {
    const { queue } = start()
    queue.add('a')
    await queue.get()
    queue.add('a')
    queue.add('a')
    const second = queue.get()
    await settle()
    queue.add('b')
    expect(await second).toBe('b')
    queue.done('a')
    expect(await queue.get()).toBe('a')
    queue.done('a')
    expect(queue.depth).toBe(0)
  })

  it('adds a key after a while, at the earliest of the times asked for', async () => {
    const { clock, queue } = start()
    queue.addAfter('a', 5_000)
    queue.addAfter('a', 1_000)
    queue.addAfter('a', 9_000)
    clock.advance(999)
    expect(queue.depth).toBe(0)
    clock.advance(1)
    expect(await queue.get()).toBe('a')
    queue.done('a')
    clock.advance(60_000)
    expect(queue.depth).toBe(0)
  })

  it('waits twice as long after each failure, at most 5 minutes, and anew after a success', async () => {
    const { clock, queue } = start()
    const waits: number[] = []
    for (let failure = 0; failure < 20; failure += 1) {
      queue.addRateLimited('a')
      const before = clock.monotonic()
      while (queue.depth === 0) clock.advance(0.5)
      waits.push(clock.monotonic() - before)
      queue.done((await queue.get()) ?? '')
    }
    // The lower end of the jitter: half of 5 ms, 10 ms, ... 300 s.
    expect(waits.slice(0, 4)).toEqual([3, 5, 10, 20])
    expect(Math.max(...waits)).toBe(150_000)
    queue.forget('a')
    queue.addRateLimited('a')
    clock.advance(3)
    expect(queue.depth).toBe(1)
  })

  it('hands out nothing once it is closed, and waits for what is worked on', async () => {
    const { queue } = start()
    queue.add('a')
    await queue.get()
    queue.add('b')
    const closed = queue.shutDown()
    let isClosed = false
    void closed.then(() => {
      isClosed = true
    })
    queue.add('c')
    expect(await queue.get()).toBeUndefined()
    await settle()
    expect(isClosed).toBe(false)
    queue.done('a')
    await closed
    expect(await queue.get()).toBeUndefined()
  })

  it('counts what is wanted again while it is worked on, and what waits for its time', async () => {
    const { clock, queue } = start()
    queue.add('a')
    await queue.get()
    queue.add('a')
    queue.add('b')
    queue.addAfter('c', 1000)
    expect([queue.depth, clock.pending]).toEqual([2, 1])
    clock.advance(1000)
    expect([queue.depth, clock.pending]).toEqual([3, 0])
  })

  it('tells all who wait for a key that it is closed, at once where nothing is worked on', async () => {
    const { clock, queue } = start()
    const takers = [queue.get(), queue.get()]
    queue.addAfter('a', 1000)
    await queue.shutDown()
    expect(await Promise.all([...takers, queue.get()])).toEqual([undefined, undefined, undefined])
    expect(clock.pending).toBe(0)
    for (const add of [() => queue.add('a'), () => queue.addAfter('a', 0), () => queue.addRateLimited('a')])
      add()
    clock.advance(1000)
    expect([queue.depth, clock.pending]).toEqual([0, 0])
  })

  it('gives nothing out again that was wanted again when it was closed', async () => {
    const { queue } = start()
    queue.add('a')
    queue.add('b')
    await queue.get()
    await queue.get()
    queue.add('a')
    let closed = false
    const closing = queue.shutDown().then(() => {
      closed = true
    })
    queue.done('a')
    await settle()
    expect([queue.depth, closed]).toEqual([0, false])
    queue.done('b')
    await closing
  })

  it('gives out no more keys of a lane at a time than it may have, and those of others before', async () => {
    const { queue } = start(0, (key) => ({ name: key.charAt(0), limit: 2 }))
    for (const key of ['a1', 'a2', 'a3', 'a4', 'b1']) queue.add(key)
    expect([await queue.get(), await queue.get(), await queue.get()]).toEqual(['a1', 'a2', 'b1'])
    const next = queue.get()
    queue.add('a5')
    queue.add('a3')
    expect(queue.depth).toBe(3)
    queue.done('b1')
    queue.done('a1')
    expect(await next).toBe('a3')
    queue.done('a2')
    queue.done('a3')
    expect([await queue.get(), await queue.get(), queue.depth]).toEqual(['a4', 'a5', 0])
  })

  it('gives out at once what has come into a lane with room', async () => {
    const lanes = new Map<string, string>()
    const { queue } = start(0, (key) => ({ name: lanes.get(key) ?? 'usual', limit: 1 }))
    for (const key of ['a', 'b', 'c']) queue.add(key)
    expect(await queue.get()).toBe('a')
    const next = queue.get()
    lanes.set('c', 'other')
    queue.add('c')
    expect(await next).toBe('c')
    const last = queue.get()
    queue.done('c')
    queue.done('a')
    expect(await last).toBe('b')
  })

  it('never has a key worked on twice at once, and never loses one', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 120 }), async (steps) => {
        const workers = new Workers()
        for (const each of steps) await workers.step(each)
        await workers.finish()
        for (const [key, at] of workers.wantedAt) {
          expect(workers.begunAt.get(key)).toBeGreaterThanOrEqual(at)
        }
        expect(workers.twiceAtOnce).toEqual([])
        expect(workers.queue.depth).toBe(0)
      }),
      { numRuns: 150 },
    )
  })
})

type Step =
  | { do: 'add' | 'addRateLimited'; key: string }
  | { do: 'addAfter'; key: string; ms: number }
  | { do: 'take' }
  | { do: 'done'; which: number }
  | { do: 'pass'; ms: number }

const key = fc.nat(4).map((number) => `k${number}`)
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ do: fc.constant('add' as const), key }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('addAfter' as const), key, ms: fc.nat(100) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('addRateLimited' as const), key }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('take' as const) }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('done' as const), which: fc.nat(4) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('pass' as const), ms: fc.nat(100) }) },
)

/** Takes steps with a queue and notes when each key was last wanted, and when work on it last began. */
class Workers {
  readonly wantedAt = new Map<string, number>()
  readonly begunAt = new Map<string, number>()
  readonly twiceAtOnce: string[] = []
  readonly #working = new Set<string>()
  readonly #clock: FakeClock
  readonly queue: WorkQueue
  /** Takes that have no key yet. */
  #waiting = 0
  #tick = 0

  constructor() {
    // Three lanes for five keys.
    const { clock, queue } = start(0.7, (key) => ({ name: `${Number(key.slice(1)) % 3}`, limit: 1 }))
    this.#clock = clock
    this.queue = queue
  }

  async step(step: Step): Promise<void> {
    this.#tick += 1
    if (step.do === 'take') this.#take()
    else if (step.do === 'done') this.#done([...this.#working][step.which % Math.max(1, this.#working.size)])
    else if (step.do === 'pass') this.#clock.advance(step.ms)
    else this.#want(step)
    await settle(1)
  }

  /** Lets everything happen that still can. */
  async finish(): Promise<void> {
    for (let round = 0; round < 60; round += 1) {
      await this.step({ do: 'pass', ms: 400_000 })
      await this.step({ do: 'take' })
      for (const key of this.#working) this.#done(key)
    }
  }

  #want(step: Extract<Step, { key: string }>): void {
    this.wantedAt.set(step.key, this.#tick)
    if (step.do === 'addAfter') this.queue.addAfter(step.key, step.ms)
    else this.queue[step.do](step.key)
  }

  #take(): void {
    if (this.#waiting > 1) return
    this.#waiting += 1
    void this.queue.get().then((key) => {
      this.#waiting -= 1
      if (key === undefined) return
      if (this.#working.has(key)) this.twiceAtOnce.push(key)
      this.#working.add(key)
      this.begunAt.set(key, this.#tick)
    })
  }

  #done(key: string | undefined): void {
    if (key === undefined) return
    this.#working.delete(key)
    this.queue.done(key)
  }
}
