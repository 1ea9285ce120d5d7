export type PaceLimits = {
  /** Begun in a second, on average. */
  perSecond: number
  /** Begun at once after a rest. */
  burst: number
}

/**
 * When the next may begin, so that there are no more in a second than that: few pay no wait, and many come evenly. Times are
 * milliseconds of the monotonic clock.
 */
export class WritePace {
  readonly #intervalMs: number
  readonly #creditMs: number
  /** When all that have begun are used up, one each interval. */
  #usedUpAt = Number.NEGATIVE_INFINITY

  constructor({ perSecond, burst }: PaceLimits) {
    this.#intervalMs = 1000 / perSecond
    this.#creditMs = (burst - 1) * this.#intervalMs
  }

  begun(now: number): void {
    this.#usedUpAt = Math.max(this.#usedUpAt, now) + this.#intervalMs
  }

  /** 0: at once. */
  waitMs(now: number): number {
    return Math.max(0, this.#usedUpAt - this.#creditMs - now)
  }
}
