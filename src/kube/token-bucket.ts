/** So many at once, then one each so often. Times are milliseconds of any clock that does not go back. */
export class TokenBucket {
  readonly #size: number
  readonly #everyMs: number
  #tokens: number
  #filledAt: number

  constructor(limits: { size: number; everyMs: number }, now: number) {
    this.#size = limits.size
    this.#everyMs = limits.everyMs
    this.#tokens = limits.size
    this.#filledAt = now
  }

  /** Whether one could be had at `now`; it is then taken. */
  tryTake(now: number): boolean {
    this.#tokens = Math.min(this.#size, this.#tokens + (now - this.#filledAt) / this.#everyMs)
    this.#filledAt = now
    if (this.#tokens < 1) return false
    this.#tokens -= 1
    return true
  }
}
