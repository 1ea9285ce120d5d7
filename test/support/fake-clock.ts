import type { Clock, Random } from '../../src/lib/time.ts'

type Timer = { due: number; run: () => void }

/** Turns of the event loop that a chain of promises may take between two timers. */
const SETTLE_TURNS = 5

/** Time that stands still until a test moves it. */
export class FakeClock implements Clock {
  readonly #timers = new Set<Timer>()
  #wall: number
  #monotonic = 0

  /** @param wall milliseconds since 1970 */
  constructor(wall: number = Date.UTC(2026, 0, 31, 12)) {
    this.#wall = wall
  }

  now(): number {
    return Math.floor(this.#wall)
  }

  monotonic(): number {
    return this.#monotonic
  }

  after(ms: number, run: () => void): () => void {
    if (!(ms >= 0 && ms < 2 ** 31)) throw new RangeError(`a timer of ${ms} ms`)
    const timer = { due: this.#monotonic + ms, run }
    this.#timers.add(timer)
    return () => this.#timers.delete(timer)
  }

  /** Number of pending timers. */
  get pending(): number {
    return this.#timers.size
  }

  /** Advances both times, and calls due timers in order, each at its own time. */
  advance(ms: number): void {
    const end = this.#monotonic + ms
    for (let timer = this.#next(end); timer; timer = this.#next(end)) this.#fire(timer)
    this.#moveTo(end)
  }

  /** Like `advance`, with turns of the event loop before each timer and at the end, so that promises can proceed. */
  async elapse(ms: number): Promise<void> {
    const end = this.#monotonic + ms
    await settle()
    for (let timer = this.#next(end); timer; timer = this.#next(end)) {
      this.#fire(timer)
      await settle()
    }
    this.#moveTo(end)
    await settle()
  }

  /** Suspends the process: timers that become due are called when time is advanced again, by 0 at least. */
  standStill(ms: number): void {
    this.#moveTo(this.#monotonic + ms)
  }

  /** Sets the wall clock; no timer becomes due by that alone. @param ms may be negative */
  setWallBy(ms: number): void {
    this.#wall += ms
  }

  #next(end: number): Timer | undefined {
    let first: Timer | undefined
    for (const timer of this.#timers) if (timer.due <= end && (!first || timer.due < first.due)) first = timer
    return first
  }

  #fire(timer: Timer): void {
    this.#timers.delete(timer)
    this.#moveTo(Math.max(timer.due, this.#monotonic))
    timer.run()
  }

  #moveTo(time: number): void {
    this.#wall += time - this.#monotonic
    this.#monotonic = time
  }
}

/** Lets ready promises and immediates proceed. */
export async function settle(turns = SETTLE_TURNS): Promise<void> {
  for (let turn = 0; turn < turns; turn += 1) await new Promise((resolve) => setImmediate(resolve))
}

type RealTimer = { due: number; run: () => void; handle: NodeJS.Timeout | undefined }

/** Real time that a test can move ahead: for hours of waiting with a real API server. */
export class SkewedClock implements Clock {
  readonly #timers = new Set<RealTimer>()
  #ahead = 0

  now(): number {
    return Date.now() + this.#ahead
  }

  monotonic(): number {
    return performance.now() + this.#ahead
  }

  after(ms: number, run: () => void): () => void {
    const timer: RealTimer = { due: this.monotonic() + ms, run, handle: undefined }
    this.#timers.add(timer)
    this.#arm(timer)
    return () => this.#drop(timer)
  }

  /** Advances both times and immediately calls due timers in order, including the ones that these set. */
  jump(ms: number): void {
    this.#ahead += ms
    const due = () => [...this.#timers].filter((timer) => timer.due <= this.monotonic())
    for (let batch = due(); batch.length > 0; batch = due()) {
      for (const timer of batch.sort((a, b) => a.due - b.due)) if (this.#timers.has(timer)) this.#fire(timer)
    }
    for (const timer of this.#timers) this.#arm(timer)
  }

  #arm(timer: RealTimer): void {
    clearTimeout(timer.handle)
    const wait = Math.max(0, timer.due - this.monotonic())
    timer.handle = setTimeout(() => this.#fire(timer), Math.min(wait, 2 ** 31 - 1)).unref()
  }

  #fire(timer: RealTimer): void {
    this.#drop(timer)
    timer.run()
  }

  #drop(timer: RealTimer): void {
    clearTimeout(timer.handle)
    this.#timers.delete(timer)
  }
}

/** Deterministic randomness: always the same fraction. */
export function fixedRandom(fraction = 0.5): Random {
  return { fraction: () => fraction, bytes: (count) => new Uint8Array(count).fill(fraction * 255) }
}
