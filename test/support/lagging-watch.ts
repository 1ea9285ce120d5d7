import type { Clock } from '../../src/lib/time.ts'

/**
 * What a watch of one kind shows of one process: in order, each thing after a while of its own. What was there before is
 * shown in the same way.
 */
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

  /** Those who come later show what waited before, in order. */
  #showNext(): void {
    const next = this.#waiting.shift()
    if (next !== undefined) this.#show(next)
  }
}
