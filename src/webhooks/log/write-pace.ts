export type WriteRateLimits = {
  /** Begun in a second, on average, where writes are quick. */
  perSecond: number
  /** Begun at once after a rest. */
  burst: number
  /** The time of so many writes is left from one to the next: where the store is slow, fewer begin. Default 0. */
  writesApart?: number
  /** How much of what is written is this process's, 0 to 1, where several write to one store. Default: all. */
  share?: (() => number) | undefined
}

/** Of all who write to the store together, however slow that is. */
const LONGEST_INTERVAL_MS = 50
/** Of one of several: three that are busy begin as many together as one alone. */
const LONGEST_SHARED_MS = 150
/** How much of what was known of their length counts beside the next one. */
const KEPT = 0.8

/**
 * When the next may begin, so that there are no more in a second than that: few pay no wait, and many come evenly. What begins
 * all the same costs the next no more than one interval. Times are milliseconds of the monotonic clock.
 */
export class WriteRateLimiter {
  readonly #limits: WriteRateLimits
  /** How long a write takes of late. */
  #typicalMs = 0
  /** Writes that may begin at once, as of then. */
  #credit: number
  #asOf = Number.NEGATIVE_INFINITY

  constructor(limits: WriteRateLimits) {
    this.#limits = limits
    this.#credit = limits.burst
  }

  recordStart(now: number): void {
    this.#credit = Math.max(0, this.#creditAt(now) - 1)
    this.#asOf = now
  }

  /** A write has ended that took so long. */
  recordEnd(ms: number): void {
    this.#typicalMs = this.#typicalMs * KEPT + ms * (1 - KEPT)
  }

  /** 0: at once. */
  waitMs(now: number): number {
    return Math.max(0, 1 - this.#creditAt(now)) * this.#intervalMs
  }

  #creditAt(now: number): number {
    return Math.min(this.#limits.burst, this.#credit + (now - this.#asOf) / this.#intervalMs)
  }

  get #intervalMs(): number {
    const { perSecond, writesApart = 0, share } = this.#limits
    const ofAll = Math.max(1000 / perSecond, Math.min(writesApart * this.#typicalMs, LONGEST_INTERVAL_MS))
    return share ? Math.min(ofAll / share(), Math.max(ofAll, LONGEST_SHARED_MS)) : ofAll
  }
}
