import type { Clock, Random } from '../lib/clock.ts'
import type { Logger } from '../lib/log.ts'
import { type BackoffLimits, backoffMs } from '../lib/sleep.ts'
import { Timers } from '../lib/timers.ts'

/**
 * Keys that share a limit on how many of them are worked on at a time, so that the many of one owner leave room for those of
 * others. What has no room waits here, in the order in which it came.
 */

export type ConcurrencyGroup = { name: string; limit: number }
/** Asked whenever a key is to be worked on: a key may change its lane. */
export type ConcurrencyGroupOf = (key: string) => ConcurrencyGroup

export class ConcurrencyGroups {
  readonly #groupOf: ConcurrencyGroupOf | undefined
  /** Lanes of the keys that are worked on, and how many each lane has. */
  readonly #groupOfWorking = new Map<string, string>()
  readonly #working = new Map<string, number>()
  /** Keys that wait, by lane, and the lane of each. */
  readonly #waiting = new Map<string, Set<string>>()
  readonly #groupOfWaiting = new Map<string, string>()

  constructor(laneOf: ConcurrencyGroupOf | undefined) {
    this.#groupOf = laneOf
  }

  /** Keys that wait for room. */
  get waiting(): number {
    return this.#groupOfWaiting.size
  }

  /** Whether it may be worked on now; else it waits for room. */
  enter(key: string): boolean {
    if (!this.#groupOf || this.#groupOfWorking.has(key)) return true
    const { name, limit } = this.#groupOf(key)
    const working = this.#working.get(name) ?? 0
    if (working >= limit) {
      this.#wait(key, name)
      return false
    }
    this.#working.set(name, working + 1)
    this.#groupOfWorking.set(key, name)
    return true
  }

  /** The work on it has ended. @returns a key that takes its place, and waits for nothing but to be worked on */
  leave(key: string): string | undefined {
    const lane = this.#groupOfWorking.get(key)
    if (lane === undefined) return undefined
    this.#groupOfWorking.delete(key)
    const [next] = this.#waiting.get(lane) ?? []
    if (next !== undefined) {
      this.#forget(next, lane)
      this.#groupOfWorking.set(next, lane)
      return next
    }
    const working = (this.#working.get(lane) ?? 1) - 1
    if (working > 0) this.#working.set(lane, working)
    else this.#working.delete(lane)
    return undefined
  }

  /** Whether it goes on waiting where it is; in another lane there may be room. */
  staysWaiting(key: string): boolean {
    const lane = this.#groupOfWaiting.get(key)
    if (lane === undefined) return false
    if (this.#groupOf?.(key).name === lane) return true
    this.#forget(key, lane)
    return false
  }

  /** Nothing waits any more. */
  clear(): void {
    this.#waiting.clear()
    this.#groupOfWaiting.clear()
  }

  #wait(key: string, lane: string): void {
    const keys = this.#waiting.get(lane) ?? new Set()
    this.#waiting.set(lane, keys.add(key))
    this.#groupOfWaiting.set(key, lane)
  }

  #forget(key: string, lane: string): void {
    this.#groupOfWaiting.delete(key)
    const keys = this.#waiting.get(lane)
    keys?.delete(key)
    if (keys?.size === 0) this.#waiting.delete(lane)
  }
}

export type WorkQueueOptions = {
  clock: Clock
  random: Random
  log: Logger
  /** Waits after failures; default 5 ms to 5 min. */
  backoff?: BackoffLimits
  /** Which keys share a limit on how many are worked on at a time; absent: none do. */
  concurrencyGroupOf?: ConcurrencyGroupOf | undefined
}

const BACKOFF: BackoffLimits = { firstMs: 5, longestMs: 5 * 60_000 }

/**
 * Keys that need work, each at most once, in the order in which they came. A key that is added while it is
 * worked on comes again afterwards; it is never worked on twice at once.
 *
 * A key is waiting for its time (`addAfter`, `retry`), ready, waiting for room in its lane, or being worked on (`take` to
 * `done`), and in the last case it may be wanted again.
 */
export class WorkQueue {
  readonly #random: Random
  readonly #clock: Clock
  readonly #backoff: BackoffLimits
  readonly #delayed: Timers<string>
  /** Insertion order is the order of the queue. */
  readonly #ready = new Set<string>()
  readonly #working = new Set<string>()
  readonly #groups: ConcurrencyGroups
  readonly #wantedAgain = new Set<string>()
  readonly #failures = new Map<string, number>()
  readonly #takers: ((key: string | undefined) => void)[] = []
  readonly #idle: (() => void)[] = []
  #closed = false

  constructor(options: WorkQueueOptions) {
    this.#clock = options.clock
    this.#random = options.random
    this.#backoff = options.backoff ?? BACKOFF
    this.#groups = new ConcurrencyGroups(options.concurrencyGroupOf)
    this.#delayed = new Timers({ clock: options.clock, log: options.log, time: 'monotonic' }, (key) =>
      this.add(key),
    )
  }

  /** Keys that are ready and not yet worked on. */
  get depth(): number {
    return this.#ready.size + this.#groups.waiting + this.#wantedAgain.size
  }

  /** Keys that wait for their time. */
  get delayed(): number {
    return this.#delayed.size
  }

  add(key: string): void {
    if (this.#closed) return
    if (this.#working.has(key)) {
      this.#wantedAgain.add(key)
      return
    }
    if (this.#groups.staysWaiting(key)) return
    // Whoever waits for a key waits because there is none.
    const [taker] = this.#takers
    if (!taker) this.#ready.add(key)
    else if (this.#groups.enter(key)) {
      this.#takers.shift()
      this.#hand(key, taker)
    }
  }

  /** Adds the key in `ms` milliseconds; of several times the earliest holds. */
  addAfter(key: string, ms: number): void {
    if (this.#closed) return
    const due = this.#clock.monotonic() + ms
    const known = this.#delayed.dueOf(key)
    if (known === undefined || due < known) this.#delayed.set(key, due)
  }

  /** Adds the key after a wait that grows with each call, until `forget`. */
  addRateLimited(key: string): void {
    const failures = (this.#failures.get(key) ?? 0) + 1
    if (!this.#closed) this.#failures.set(key, failures)
    this.addAfter(key, backoffMs(failures, this.#backoff, this.#random))
  }

  /** The key succeeded: its next failure is its first. */
  forget(key: string): void {
    this.#failures.delete(key)
  }

  /** The next key, once there is one; undefined once the queue is closed. Whoever gets a key calls `done`. */
  get(): Promise<string | undefined> {
    for (const key of this.#ready) {
      this.#ready.delete(key)
      if (!this.#groups.enter(key)) continue
      this.#working.add(key)
      return Promise.resolve(key)
    }
    if (this.#closed) return Promise.resolve(undefined)
    return new Promise((resolve) => this.#takers.push(resolve))
  }

  /** The work on a taken key has ended, however. */
  done(key: string): void {
    this.#working.delete(key)
    const next = this.#groups.leave(key)
    if (next !== undefined) this.add(next)
    if (this.#wantedAgain.delete(key)) this.add(key)
    if (this.#closed && this.#working.size === 0) for (const resolve of this.#idle.splice(0)) resolve()
  }

  /** Hands out no more keys (what waits is dropped: state is level-triggered) and resolves when the last is done. */
  shutDown(): Promise<void> {
    this.#closed = true
    this.#delayed.stop()
    this.#ready.clear()
    this.#groups.clear()
    this.#wantedAgain.clear()
    for (const taker of this.#takers.splice(0)) taker(undefined)
    if (this.#working.size === 0) return Promise.resolve()
    return new Promise((resolve) => this.#idle.push(resolve))
  }

  #hand(key: string, taker: (key: string) => void): void {
    this.#working.add(key)
    taker(key)
  }
}
