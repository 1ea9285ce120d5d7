import type { Clock } from './clock.ts'
import type { Logger } from './log.ts'

const FIRST_CAPACITY = 64

/**
 * Keys by their due time, the earliest on top; a key is in it once. Moving is done in typed arrays, so that a
 * million entries take some 60 MB and no garbage: `heap` holds slots in heap order, and a slot knows its key,
 * its due time and its place in the heap.
 */
export class TimerHeap<K> {
  readonly #slots = new Map<K, number>()
  readonly #free: number[] = []
  #keys: (K | undefined)[] = []
  #due = new Float64Array(FIRST_CAPACITY)
  #places = new Int32Array(FIRST_CAPACITY)
  #heap = new Int32Array(FIRST_CAPACITY)

  get size(): number {
    return this.#slots.size
  }

  /** Sets the due time of a key, whether it was in or not. */
  push(key: K, due: number): void {
    const known = this.#slots.get(key)
    const slot = known ?? this.#enter(key)
    const earlier = known !== undefined && due < this.#dueOf(slot)
    this.#due[slot] = due
    if (known === undefined || earlier) this.#rise(this.#placeOf(slot))
    else this.#sink(this.#placeOf(slot))
  }

  /** Whether the key was in. */
  remove(key: K): boolean {
    const slot = this.#slots.get(key)
    if (slot === undefined) return false
    const place = this.#placeOf(slot)
    const lastPlace = this.size - 1
    const last = this.#slotAt(lastPlace)
    this.#slots.delete(key)
    this.#keys[slot] = undefined
    this.#free.push(slot)
    if (place !== lastPlace) {
      this.#put(last, place)
      this.#rise(place)
      this.#sink(this.#placeOf(last))
    }
    return true
  }

  dueOf(key: K): number | undefined {
    const slot = this.#slots.get(key)
    return slot === undefined ? undefined : this.#dueOf(slot)
  }

  /** The earliest due time. */
  nextDue(): number | undefined {
    return this.size === 0 ? undefined : this.#dueOf(this.#slotAt(0))
  }

  /** Takes out the earliest key if it is due by `now`. */
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
    const [due, places, heap] = [this.#due, this.#places, this.#heap]
    this.#due = new Float64Array(capacity)
    this.#due.set(due)
    this.#places = new Int32Array(capacity)
    this.#places.set(places)
    this.#heap = new Int32Array(capacity)
    this.#heap.set(heap)
  }

  #rise(from: number): void {
    const slot = this.#slotAt(from)
    const due = this.#dueOf(slot)
    let place = from
    while (place > 0) {
      const parent = (place - 1) >> 1
      const above = this.#slotAt(parent)
      if (this.#dueOf(above) <= due) break
      this.#put(above, place)
      place = parent
    }
    this.#put(slot, place)
  }

  #sink(from: number): void {
    const slot = this.#slotAt(from)
    const due = this.#dueOf(slot)
    let place = from
    for (;;) {
      const child = this.#earlierChild(place)
      if (child === undefined || this.#dueOf(this.#slotAt(child)) >= due) break
      this.#put(this.#slotAt(child), place)
      place = child
    }
    this.#put(slot, place)
  }

  #earlierChild(place: number): number | undefined {
    const left = 2 * place + 1
    if (left >= this.size) return undefined
    const right = left + 1
    if (right >= this.size) return left
    return this.#dueOf(this.#slotAt(right)) < this.#dueOf(this.#slotAt(left)) ? right : left
  }

  #put(slot: number, place: number): void {
    this.#heap[place] = slot
    this.#places[slot] = place
  }

  // Places and slots are always within the arrays; the fallbacks only satisfy the compiler.
  #slotAt(place: number): number {
    return this.#heap[place] ?? 0
  }

  #placeOf(slot: number): number {
    return this.#places[slot] ?? 0
  }

  #dueOf(slot: number): number {
    return this.#due[slot] ?? Number.POSITIVE_INFINITY
  }
}

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
