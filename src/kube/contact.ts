import type { Clock } from '../lib/ports-clock.ts'

/** A watch that stays open for so long was let in: nobody tells that a stream has begun. */
const LET_IN_MS = 2000

/** For how long a watch has been cut off from what it watches. */
export class WatchHealth {
  readonly #clock: Clock
  #lostAt: number | undefined
  #openedAt: number | undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** A stream is asked for. */
  opening(): void {
    this.#openedAt = this.#clock.monotonic()
  }

  /** Something came, or the server ended the stream in the ordinary way. */
  connected(): void {
    this.#lostAt = undefined
  }

  /** A list or a watch failed. */
  disconnected(): void {
    if (this.disconnectedForMs() === 0) this.#lostAt = this.#clock.monotonic()
    this.#openedAt = undefined
  }

  /** Milliseconds since the first failure after which nothing has come through; 0 while all is well. */
  disconnectedForMs(): number {
    const now = this.#clock.monotonic()
    if (this.#openedAt !== undefined && now - this.#openedAt >= LET_IN_MS) this.#lostAt = undefined
    // A moment ago is not now.
    return this.#lostAt === undefined ? 0 : Math.max(1, now - this.#lostAt)
  }
}
