import type { Clock } from '../../src/lib/time.ts'

/** A watch of one kind in one process: it delivers in order, each object after its own delay, including the initial ones. */
export class LaggingWatch<T> {
  readonly #clock: Clock
  readonly #lagMs: () => number
  readonly #show: (thing: T) => void
  readonly #waiting: T[] = []
  #lastAt = 0

  /** @param clock of the process */
  constructor(clock: Clock, lagMs: () => number, show: (thing: T) => void) {
    this.#clock = clock
    this.#lagMs = lagMs
    this.#show = show
  }

  add(thing: T): void {
    this.#waiting.push(thing)
    const now = this.#clock.monotonic()
    this.#lastAt = Math.max(this.#lastAt, now + this.#lagMs())
    this.#clock.after(this.#lastAt - now, () => this.#showNext())
  }

  /** Delivers earlier objects first, in order. */
  #showNext(): void {
    const next = this.#waiting.shift()
    if (next !== undefined) this.#show(next)
  }
}
