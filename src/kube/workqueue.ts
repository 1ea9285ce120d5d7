import type { Logger } from '../lib/log.ts'
import { type BackoffLimits, backoffMs, type Clock, type Random } from '../lib/time.ts'
import { Timers } from '../lib/timers.ts'

/** The work queue of a controller, like client-go's: unique keys, delays, backoff, and limits per group of keys. */

/**
 * Keys of a group share a limit on how many are processed at once, so that the many of one owner leave capacity for
 * others. Keys over the limit wait here in order.
 */
export type ConcurrencyGroup = { name: string; limit: number }
/** Called whenever a key is to be processed: its group may change. */
export type ConcurrencyGroupOf = (key: string) => ConcurrencyGroup

export class ConcurrencyGroups {
  readonly #groupOf: ConcurrencyGroupOf | undefined
  /** Groups of the keys in process, and how many each group has. */
  readonly #groupOfWorking = new Map<string, string>()
  readonly #working = new Map<string, number>()
  /** Waiting keys by group, and the group of each. */
  readonly #waiting = new Map<string, Set<string>>()
  readonly #groupOfWaiting = new Map<string, string>()

  constructor(groupOf: ConcurrencyGroupOf | undefined) {
    this.#groupOf = groupOf
  }

  /** Waiting keys. */
  get waiting(): number {
    return this.#groupOfWaiting.size
  }

  /** Whether the key may be processed now; if not, it waits. */
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

  /** Processing has ended. @returns a waiting key that takes its slot */
  leave(key: string): string | undefined {
    const group = this.#groupOfWorking.get(key)
    if (group === undefined) return undefined
    this.#groupOfWorking.delete(key)
    const [next] = this.#waiting.get(group) ?? []
    if (next !== undefined) {
      this.#forget(next, group)
      this.#groupOfWorking.set(next, group)
      return next
    }
    const working = (this.#working.get(group) ?? 1) - 1
    if (working > 0) this.#working.set(group, working)
    else this.#working.delete(group)
    return undefined
  }

  /** Whether the key keeps waiting in its group; if it changed groups, it may fit there. */
  staysWaiting(key: string): boolean {
    const group = this.#groupOfWaiting.get(key)
    if (group === undefined) return false
    if (this.#groupOf?.(key).name === group) return true
    this.#forget(key, group)
    return false
  }

  clear(): void {
    this.#waiting.clear()
    this.#groupOfWaiting.clear()
  }

  #wait(key: string, group: string): void {
    const keys = this.#waiting.get(group) ?? new Set()
    this.#waiting.set(group, keys.add(key))
    this.#groupOfWaiting.set(key, group)
  }

  #forget(key: string, group: string): void {
    this.#groupOfWaiting.delete(key)
    const keys = this.#waiting.get(group)
    keys?.delete(key)
    if (keys?.size === 0) this.#waiting.delete(group)
  }
}

export type WorkQueueOptions = {
  clock: Clock
  random: Random
  log: Logger
  /** Which keys share a limit. Absent: none do. */
  concurrencyGroupOf?: ConcurrencyGroupOf | undefined
}

/** Waits after failures. */
const BACKOFF: BackoffLimits = { firstMs: 5, longestMs: 5 * 60_000 }

/**
 * Keys to process, each at most once, in the order in which they came. A key that is added while in process is
 * processed again afterwards, never twice at once.
 *
 * A key is delayed (`addAfter`, `addRateLimited`), ready, waiting for a slot of its group, or in process (`get` to
 * `done`), and then it may be wanted again.
 */
export class WorkQueue {
  readonly #random: Random
  readonly #clock: Clock
  readonly #delayed: Timers<string>
  /** Insertion order is queue order. */
  readonly #ready = new Set<string>()
  readonly #working = new Set<string>()
  readonly #groups: ConcurrencyGroups
  readonly #wantedAgain = new Set<string>()
  readonly #failures = new Map<string, number>()
  readonly #waiters: ((key: string | undefined) => void)[] = []
  readonly #idle: (() => void)[] = []
  #closed = false

  constructor(options: WorkQueueOptions) {
    this.#clock = options.clock
    this.#random = options.random
    this.#groups = new ConcurrencyGroups(options.concurrencyGroupOf)
    this.#delayed = new Timers({ clock: options.clock, log: options.log, time: 'monotonic' }, (key) =>
      this.add(key),
    )
  }

  /** Keys that are ready but not in process. */
  get depth(): number {
    return this.#ready.size + this.#groups.waiting + this.#wantedAgain.size
  }

  add(key: string): void {
    if (this.#closed) return
    if (this.#working.has(key)) {
      this.#wantedAgain.add(key)
      return
    }
    if (this.#groups.staysWaiting(key)) return
    // If a worker waits, no key is ready.
    const [waiter] = this.#waiters
    if (!waiter) this.#ready.add(key)
    else if (this.#groups.enter(key)) {
      this.#waiters.shift()
      this.#hand(key, waiter)
    }
  }

  /** Adds the key after `ms`; the earliest of several times counts. */
  addAfter(key: string, ms: number): void {
    if (this.#closed) return
    const due = this.#clock.monotonic() + ms
    const known = this.#delayed.dueOf(key)
    if (known === undefined || due < known) this.#delayed.set(key, due)
  }

  /** Adds the key after a wait that grows with each call until `forget`. */
  addRateLimited(key: string): void {
    const failures = (this.#failures.get(key) ?? 0) + 1
    if (!this.#closed) this.#failures.set(key, failures)
    this.addAfter(key, backoffMs(failures, BACKOFF, this.#random))
  }

  /** The key succeeded: the next failure is its first. */
  forget(key: string): void {
    this.#failures.delete(key)
  }

  /** The next key, when there is one; undefined once the queue is shut down. The caller must call `done`. */
  get(): Promise<string | undefined> {
    for (const key of this.#ready) {
      this.#ready.delete(key)
      if (!this.#groups.enter(key)) continue
      this.#working.add(key)
      return Promise.resolve(key)
    }
    if (this.#closed) return Promise.resolve(undefined)
    return new Promise((resolve) => this.#waiters.push(resolve))
  }

  /** Processing a key has ended, with or without success. */
  done(key: string): void {
    this.#working.delete(key)
    const next = this.#groups.leave(key)
    if (next !== undefined) this.add(next)
    if (this.#wantedAgain.delete(key)) this.add(key)
    if (this.#closed && this.#working.size === 0) for (const resolve of this.#idle.splice(0)) resolve()
  }

  /** Hands out no more keys (waiting ones are dropped: state is level-triggered) and resolves when the last is done. */
  shutDown(): Promise<void> {
    this.#closed = true
    this.#delayed.stop()
    this.#ready.clear()
    this.#groups.clear()
    this.#wantedAgain.clear()
    for (const waiter of this.#waiters.splice(0)) waiter(undefined)
    if (this.#working.size === 0) return Promise.resolve()
    return new Promise((resolve) => this.#idle.push(resolve))
  }

  #hand(key: string, waiter: (key: string) => void): void {
    this.#working.add(key)
    waiter(key)
  }
}
