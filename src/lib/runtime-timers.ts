import type { Clock } from './ports-clock.ts'
import type { Logger } from './ports-log.ts'
import { TimerHeap } from './timers.ts'

export type TimersOptions = {
  clock: Clock
  log: Logger
  /**
   * `wall`: due times are milliseconds since 1970; what the wall clock passes when it is set ahead is due, and when it is
   * set back nobody waits longer for that. `monotonic`: due times are the clock's monotonic milliseconds. Default `wall`.
   */
  time?: 'wall' | 'monotonic'
}

/** Looks at the wall clock at least so often, since nothing tells when it was set. */
const LONGEST_SLEEP_MS = 30_000
/** Two clocks that are read one after the other differ a little. */
const TOLERANCE_MS = 1000
/** Callbacks in one turn of the event loop. */
const BATCH = 500

/**
 * Any number of timers on one heap and one timer of the clock. A key has one due time; setting it again
 * replaces it.
 */
export class Timers<K> {
  readonly #clock: Clock
  readonly #log: Logger
  readonly #isWall: boolean
  readonly #heap = new TimerHeap<K>()
  readonly #callbacks = new Map<K, (key: K) => void>()
  readonly #shared: ((key: K) => void) | undefined
  /** Wall time less monotonic time, at the last look. */
  #offset: number
  /** By how much the wall clock was set back in all: the heap's time never goes back. */
  #setBack = 0
  /** In the time of the heap; infinite where the sleep that was begun for it is no longer right. */
  #wakeAt = Number.POSITIVE_INFINITY
  #stopTimer: (() => void) | undefined
  #firing = false
  #stopped = false

  /** @param run for all keys that are set without a callback of their own, which saves 50 bytes each */
  constructor(options: TimersOptions, run?: (key: K) => void) {
    this.#clock = options.clock
    this.#log = options.log
    this.#isWall = options.time !== 'monotonic'
    this.#offset = this.#clock.now() - this.#clock.monotonic()
    this.#shared = run
  }

  get size(): number {
    return this.#heap.size
  }

  /** Calls `run` once, at `due` or as soon after as the event loop allows; never within this call. */
  set(key: K, due: number, run?: (key: K) => void): void {
    if (this.#stopped) return
    this.#read()
    this.#heap.push(key, due + this.#setBack)
    if (run) this.#callbacks.set(key, run)
    else this.#callbacks.delete(key)
    if (!this.#firing && due + this.#setBack < this.#wakeAt) this.#plan()
  }

  dueOf(key: K): number | undefined {
    const due = this.#heap.dueOf(key)
    return due === undefined ? undefined : due - this.#setBack
  }

  /** Whether it was set. */
  delete(key: K): boolean {
    this.#callbacks.delete(key)
    return this.#heap.remove(key)
  }

  /** No callback any more. */
  stop(): void {
    this.#stopped = true
    this.#stopTimer?.()
    this.#stopTimer = undefined
  }

  /** The time of the heap. */
  #read(): number {
    const monotonic = this.#clock.monotonic()
    if (!this.#isWall) return monotonic
    const now = this.#clock.now()
    const offset = now - monotonic
    if (offset < this.#offset - TOLERANCE_MS) this.#setBack += this.#offset - offset
    else if (offset > this.#offset + TOLERANCE_MS) this.#wakeAt = Number.POSITIVE_INFINITY
    this.#offset = offset
    return now + this.#setBack
  }

  #plan(): void {
    this.#stopTimer?.()
    this.#stopTimer = undefined
    const due = this.#heap.nextDue()
    this.#wakeAt = Number.POSITIVE_INFINITY
    if (due === undefined || this.#stopped) return
    this.#wakeAt = due
    const wait = Math.min(Math.max(0, due - this.#read()), LONGEST_SLEEP_MS)
    // Node's timers count whole milliseconds: rounded up, so that one wake-up is enough.
    this.#stopTimer = this.#clock.after(Math.ceil(wait), () => this.#fire())
  }

  #fire(): void {
    this.#firing = true
    const now = this.#read()
    for (let count = 0; count < BATCH && !this.#stopped; count += 1) {
      const key = this.#heap.popDue(now)
      if (key === undefined) break
      this.#call(key)
    }
    this.#firing = false
    this.#plan()
  }

  #call(key: K): void {
    const run = this.#callbacks.get(key) ?? this.#shared
    this.#callbacks.delete(key)
    try {
      run?.(key)
    } catch (error) {
      this.#log.error('A timer callback failed', { error })
    }
  }
}
