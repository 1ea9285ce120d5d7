import type { Logger } from './log.ts'
import type { Clock } from './time.ts'

/** Millions of timers on one heap and one timer of the clock. */

const FIRST_CAPACITY = 64

/**
 * Keys by due time, the earliest on top; each key once. Typed arrays keep a million entries in about 60 MB without
 * garbage: `heap` holds slots in heap order; a slot has its key, due time and index in the heap.
 */
export class TimerHeap<K> {
  readonly #slots = new Map<K, number>()
  readonly #free: number[] = []
  #keys: (K | undefined)[] = []
  #due = new Float64Array(FIRST_CAPACITY)
  #indexes = new Int32Array(FIRST_CAPACITY)
  #heap = new Int32Array(FIRST_CAPACITY)

  get size(): number {
    return this.#slots.size
  }

  /** Sets the due time of a new or known key. */
  push(key: K, due: number): void {
    const known = this.#slots.get(key)
    const slot = known ?? this.#enter(key)
    const earlier = known !== undefined && due < this.#dueOf(slot)
    this.#due[slot] = due
    if (known === undefined || earlier) this.#rise(this.#indexOf(slot))
    else this.#sink(this.#indexOf(slot))
  }

  /** @returns whether the key was there */
  remove(key: K): boolean {
    const slot = this.#slots.get(key)
    if (slot === undefined) return false
    const index = this.#indexOf(slot)
    const lastIndex = this.size - 1
    const last = this.#slotAt(lastIndex)
    this.#slots.delete(key)
    this.#keys[slot] = undefined
    this.#free.push(slot)
    if (index !== lastIndex) {
      this.#put(last, index)
      this.#rise(index)
      this.#sink(this.#indexOf(last))
    }
    return true
  }

  dueOf(key: K): number | undefined {
    const slot = this.#slots.get(key)
    return slot === undefined ? undefined : this.#dueOf(slot)
  }

  nextDue(): number | undefined {
    return this.size === 0 ? undefined : this.#dueOf(this.#slotAt(0))
  }

  /** Removes and returns the earliest key if it is due by `now`. */
  popDue(now: number): K | undefined {
    if (this.size === 0) return undefined
    const slot = this.#slotAt(0)
    if (this.#dueOf(slot) > now) return undefined
    const key = this.#keys[slot]
    if (key !== undefined) this.remove(key)
    return key
  }

  #enter(key: K): number {
    const slot = this.#free.pop() ?? this.size
    if (slot >= this.#due.length) this.#grow()
    this.#put(slot, this.size)
    this.#slots.set(key, slot)
    this.#keys[slot] = key
    return slot
  }

  #grow(): void {
    const capacity = this.#due.length * 2
    const [due, indexes, heap] = [this.#due, this.#indexes, this.#heap]
    this.#due = new Float64Array(capacity)
    this.#due.set(due)
    this.#indexes = new Int32Array(capacity)
    this.#indexes.set(indexes)
    this.#heap = new Int32Array(capacity)
    this.#heap.set(heap)
  }

  #rise(from: number): void {
    const slot = this.#slotAt(from)
    const due = this.#dueOf(slot)
    let index = from
    while (index > 0) {
      const parent = (index - 1) >> 1
      const above = this.#slotAt(parent)
      if (this.#dueOf(above) <= due) break
      this.#put(above, index)
      index = parent
    }
    this.#put(slot, index)
  }

  #sink(from: number): void {
    const slot = this.#slotAt(from)
    const due = this.#dueOf(slot)
    let index = from
    for (;;) {
      const child = this.#earlierChild(index)
      if (child === undefined || this.#dueOf(this.#slotAt(child)) >= due) break
      this.#put(this.#slotAt(child), index)
      index = child
    }
    this.#put(slot, index)
  }

  #earlierChild(index: number): number | undefined {
    const left = 2 * index + 1
    if (left >= this.size) return undefined
    const right = left + 1
    if (right >= this.size) return left
    return this.#dueOf(this.#slotAt(right)) < this.#dueOf(this.#slotAt(left)) ? right : left
  }

  #put(slot: number, index: number): void {
    this.#heap[index] = slot
    this.#indexes[slot] = index
  }

  // Indexes are always within the arrays; the fallbacks satisfy the compiler.
  #slotAt(index: number): number {
    return this.#heap[index] ?? 0
  }

  #indexOf(slot: number): number {
    return this.#indexes[slot] ?? 0
  }

  #dueOf(slot: number): number {
    return this.#due[slot] ?? Number.POSITIVE_INFINITY
  }
}

export type TimersOptions = {
  clock: Clock
  log: Logger
  /**
   * `wall` (default): due times are milliseconds since 1970; setting the clock ahead makes timers due, setting it
   * back delays none. `monotonic`: due times are monotonic milliseconds.
   */
  time?: 'wall' | 'monotonic'
}

/** The wall clock is checked at least this often, since setting it sends no signal. */
const LONGEST_SLEEP_MS = 30_000
/** Two clocks read in sequence differ a little. */
const TOLERANCE_MS = 1000
/** Callbacks per turn of the event loop. */
const BATCH = 500

/** A key has one due time; setting it again replaces it. */
export class Timers<K> {
  readonly #clock: Clock
  readonly #log: Logger
  readonly #isWall: boolean
  readonly #heap = new TimerHeap<K>()
  readonly #callbacks = new Map<K, (key: K) => void>()
  readonly #shared: ((key: K) => void) | undefined
  /** Wall time minus monotonic time at the last check. */
  #offset: number
  /** Total by which the wall clock was set back: the heap's time never goes back. */
  #setBack = 0
  /** In the heap's time; infinite if the current sleep is not valid any more. */
  #wakeAt = Number.POSITIVE_INFINITY
  #stopTimer: (() => void) | undefined
  #firing = false
  #stopped = false

  /** @param run for keys that are set without their own callback, which saves 50 bytes each */
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

  /** Calls `run` once at `due`, or as soon after as the event loop allows; never within this call. */
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

  /** @returns whether it was set */
  delete(key: K): boolean {
    this.#callbacks.delete(key)
    return this.#heap.remove(key)
  }

  /** No more callbacks. */
  stop(): void {
    this.#stopped = true
    this.#stopTimer?.()
    this.#stopTimer = undefined
  }

  /** The current time of the heap. */
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
    // Node's timers count whole milliseconds: round up, so that one wake-up is enough.
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
      this.#log.error('timer_callback_failed', 'timer callback failed', { error })
    }
  }
}
