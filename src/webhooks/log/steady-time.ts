import type { Clock } from '../../lib/ports-clock.ts'

/** Small corrections of the clock are taken as they come. */
const TOLERANCE_MS = 60_000
const UNSEEN_MS = 10 * 60_000
const BELIEVED_AFTER_MS = 60 * 60_000

/**
 * The wall time for ages. A clock that is set far ahead makes everything old at once; by mistake it is mostly
 * mended soon, and what was deleted does not come back. So such a time counts only when it has stood for an hour.
 */
export class SkewGuardedClock {
  readonly #clock: Clock
  /** Wall time less monotonic time, as believed. */
  #offset: number
  /** An offset that is not believed yet, since when, and when it was last seen, monotonic. */
  #doubted: { offset: number; since: number; seenAt: number } | undefined

  constructor(clock: Clock) {
    this.#clock = clock
    this.#offset = clock.now() - clock.monotonic()
  }

  /** Milliseconds since 1970. */
  now(): number {
    const monotonic = this.#clock.monotonic()
    const offset = this.#clock.now() - monotonic
    if (offset - this.#offset <= TOLERANCE_MS) this.#believe(offset)
    else {
      const before = this.#doubted
      // Nobody has looked for long, and it may have been mended meanwhile; or it was mended in part.
      const isNew = !before || monotonic - before.seenAt > UNSEEN_MS || offset < before.offset - TOLERANCE_MS
      this.#doubted = isNew
        ? { offset, since: monotonic, seenAt: monotonic }
        : { ...before, seenAt: monotonic }
      if (monotonic - this.#doubted.since >= BELIEVED_AFTER_MS) this.#believe(this.#doubted.offset)
    }
    return monotonic + this.#offset
  }

  #believe(offset: number): void {
    this.#offset = offset
    this.#doubted = undefined
  }
}
