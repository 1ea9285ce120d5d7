import { describe, expect, it } from 'vitest'
import { fc } from '../../test/support/fast-check.ts'
import { deliverySegments } from '../apis/delivery-segment.ts'
import { ApiError, type WatchEvent, type WatchSource } from './client.ts'
import { SharedWatches } from './shared-watch.ts'

const LARGE = 1_000_000

/** A log of versions 1, 2, ...; every stream follows it, and can be ended. */
class Log implements WatchSource {
  newest = 0
  /** Number of streams. */
  open = 0
  /** What each stream began with. */
  readonly opened: number[] = []
  readonly #wakes = new Set<() => void>()
  #broken: { error?: Error } | undefined

  append(): void {
    this.newest += 1
    this.#wake()
  }

  /** Ends all streams. @param error absent: they end normally */
  end(error?: Error): void {
    this.#broken = error ? { error } : {}
    this.#wake()
    this.#broken = undefined
  }

  async *watch(
    _type: unknown,
    _query: unknown,
    from: string,
    signal: AbortSignal,
  ): AsyncGenerator<WatchEvent[], void> {
    this.opened.push(Number(from))
    this.open += 1
    let [at, broken] = [Number(from), this.#broken]
    let news = Promise.withResolvers<void>()
    const wake = () => {
      broken ??= this.#broken
      news.resolve()
      news = Promise.withResolvers()
    }
    this.#wakes.add(wake)
    signal.addEventListener('abort', wake)
    try {
      while (!signal.aborted) {
        if (at < this.newest) {
          at += 1
          yield [eventOf(at)]
        } else if (broken) {
          if (broken.error) throw broken.error
          return
        } else await news.promise
      }
    } finally {
      this.#wakes.delete(wake)
      this.open -= 1
    }
  }

  #wake(): void {
    for (const wake of this.#wakes) wake()
  }
}

function eventOf(version: number): WatchEvent {
  const metadata = { name: `s-${version}`, resourceVersion: String(version) }
  return { type: 'ADDED', object: { metadata }, bytes: 100 }
}

/** A reader as an informer is one: it watches again from what it knows when a stream ends. */
class Reader {
  readonly seen: number[] = []
  readonly errors: unknown[] = []
  readonly #watches: SharedWatches
  #at: number
  #stopping = new AbortController()
  #watching = new AbortController()

  constructor(watches: SharedWatches, from: number) {
    this.#watches = watches
    this.#at = from
    void this.#run()
  }

  stop(): void {
    this.#stopping.abort()
    this.#watching.abort()
  }

  reopen(): void {
    this.#watching.abort()
    this.#watching = new AbortController()
  }

  async #run(): Promise<void> {
    while (!this.#stopping.signal.aborted) {
      const { signal } = this.#watching
      try {
        for await (const events of this.#watches.watch(deliverySegments, {}, String(this.#at), signal))
          for (const event of events) this.#take(event)
      } catch (error) {
        this.errors.push(error)
      }
      await Promise.resolve()
    }
  }

  #take(event: WatchEvent): void {
    if (event.type === 'BOOKMARK' || this.#stopping.signal.aborted) return
    this.#at = Number(event.object.metadata.resourceVersion)
    this.seen.push(this.#at)
  }
}

/** Until nothing happens any more. */
async function settle(): Promise<void> {
  for (let i = 0; i < 50; i += 1) await Promise.resolve()
  await new Promise((resolve) => setImmediate(resolve))
}

async function append(log: Log, count: number): Promise<void> {
  for (let i = 0; i < count; i += 1) {
    log.append()
    await settle()
  }
}

function range(first: number, last: number): number[] {
  return Array.from({ length: last - first + 1 }, (_, i) => first + i)
}

describe('two readers of the same objects', () => {
  it('share one stream', async () => {
    const log = new Log()
    const watches = new SharedWatches(log, LARGE)
    const readers = [new Reader(watches, 0), new Reader(watches, 0)]
    await append(log, 3)
    expect(readers.map(({ seen }) => seen)).toEqual([range(1, 3), range(1, 3)])
    expect(log.opened).toEqual([0])
  })

  it('share it also when the second begins later, with a newer version', async () => {
    const log = new Log()
    const watches = new SharedWatches(log, LARGE)
    new Reader(watches, 0)
    await append(log, 5)
    const second = new Reader(watches, 3)
    await append(log, 2)
    expect(second.seen).toEqual(range(4, 7))
    expect(log.opened).toEqual([0])
  })

  it('have a stream each while the second lacks what is gone, and one again once it has caught up', async () => {
    const log = new Log()
    const watches = new SharedWatches(log, 250)
    const first = new Reader(watches, 0)
    await append(log, 10)
    const second = new Reader(watches, 2)
    await append(log, 2)
    expect(second.seen).toEqual(range(3, 12))
    expect(log.opened).toEqual([0, 2])
    await append(log, 3)
    first.stop()
    await append(log, 1)
    expect(second.seen).toEqual(range(3, 16))
    expect(log.opened).toEqual([0, 2])
  })

  it('get the error of the stream, and begin again with what each knows', async () => {
    const log = new Log()
    const watches = new SharedWatches(log, LARGE)
    const readers = [new Reader(watches, 0), new Reader(watches, 0)]
    await append(log, 2)
    const error = new ApiError('Unavailable', 'gone away', { status: 0 })
    log.end(error)
    await settle()
    await append(log, 2)
    expect(readers.map((reader) => reader.errors)).toEqual([[error], [error]])
    expect(readers.map(({ seen }) => seen)).toEqual([range(1, 4), range(1, 4)])
    expect(log.opened).toEqual([0, 2])
  })

  it('do not both list again because the version of the first is too old', async () => {
    const log = new Log()
    const watches = new SharedWatches(log, LARGE)
    const [first, second] = [new Reader(watches, 0), new Reader(watches, 1)]
    await settle()
    log.end(new ApiError('Gone', 'too old', { status: 410 }))
    await settle()
    expect([first.errors.length, second.errors.length]).toEqual([1, 0])
  })

  it('get a new one if they begin again, since theirs may be dead', async () => {
    const log = new Log()
    const watches = new SharedWatches(log, LARGE)
    const readers = [new Reader(watches, 0), new Reader(watches, 0)]
    await append(log, 2)
    for (const reader of readers) reader.reopen()
    await append(log, 2)
    expect(readers.map(({ seen }) => seen)).toEqual([range(1, 4), range(1, 4)])
    expect([log.opened, log.open]).toEqual([[0, 2], 1])
    readers[0]?.reopen()
    await append(log, 1)
    expect([log.opened, log.open]).toEqual([[0, 2, 4], 2])
  })

  it('close the stream when the last one leaves', async () => {
    const log = new Log()
    const watches = new SharedWatches(log, LARGE)
    const readers = [new Reader(watches, 0), new Reader(watches, 0)]
    await append(log, 1)
    for (const reader of readers) reader.stop()
    await settle()
    expect(log.open).toBe(0)
    const third = new Reader(watches, 1)
    await append(log, 1)
    expect(third.seen).toEqual([2])
    expect(log.opened).toEqual([0, 1])
  })
})

describe('streams', () => {
  it('are not shared by readers of other objects', async () => {
    const log = new Log()
    const watches = new SharedWatches(log, LARGE)
    const { signal } = new AbortController()
    for (const query of [{}, { namespace: 'a' }, { labelSelector: 'a' }, { limit: 10 }])
      void watches.watch(deliverySegments, query, '0', signal).next()
    await settle()
    expect(log.opened).toHaveLength(3)
  })
})

const step = fc.oneof(
  fc.record({ what: fc.constant('append'), count: fc.integer({ min: 1, max: 8 }) }),
  fc.record({ what: fc.constant('begin'), behind: fc.nat(20) }),
  fc.record({ what: fc.constantFrom('leave', 'reopen', 'fail', 'end') }),
)

type Step = typeof step extends fc.Arbitrary<infer S> ? S : never

/** Readers that come and go while the log grows and streams end. */
class Story {
  readonly log = new Log()
  readonly #watches: SharedWatches
  readonly readers: { reader: Reader; from: number; until: number }[] = []

  constructor(maxBytes: number) {
    this.#watches = new SharedWatches(this.log, maxBytes)
  }

  async take(one: Step): Promise<void> {
    const { log } = this
    if ('count' in one) await append(log, one.count)
    else if ('behind' in one) this.#begin(Math.max(0, log.newest - one.behind))
    else if (one.what === 'leave') await this.#leave()
    else if (one.what === 'reopen') this.readers.at(-1)?.reader.reopen()
    else log.end(one.what === 'fail' ? new ApiError('Unavailable', '', { status: 0 }) : undefined)
    await settle()
  }

  #begin(from: number): void {
    this.readers.push({ reader: new Reader(this.#watches, from), from, until: Number.POSITIVE_INFINITY })
  }

  async #leave(): Promise<void> {
    const leaving = this.readers.find(({ until }) => until === Number.POSITIVE_INFINITY)
    if (!leaving) return
    await settle()
    leaving.until = this.log.newest
    leaving.reader.stop()
  }
}

it('gives every reader each event once and in order, whatever happens', async () => {
  const bytes = fc.constantFrom(150, 600, LARGE)
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 25 }), bytes, async (steps, maxBytes) => {
      const story = new Story(maxBytes)
      for (const one of steps) await story.take(one)
      await settle()
      for (const { reader, from, until } of story.readers)
        expect(reader.seen).toEqual(range(from + 1, Math.min(until, story.log.newest)))
      for (const { reader } of story.readers) reader.stop()
      await settle()
    }),
    { numRuns: 300 },
  )
})
