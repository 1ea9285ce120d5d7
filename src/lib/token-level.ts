/** Of what is left after a complaint. */
const SLOWER = 0.7
/** Never below this part of the set rate. */
const FLOOR = 0.1
/** From the floor to the set rate: slow, since each complaint on the way is a call in vain. */
const RECOVERY_MS = 120_000
/** Complaints about calls that were on their way together count once. */
const ONE_COMPLAINT_MS = 1000

/**
 * Tokens that come at a rate, up to a burst. The rate falls by a factor when there were too many, and rises steadily to what was
 * set. Times are milliseconds of any clock that does not go back.
 */
export class AdaptiveTokenBucket {
  readonly #setRate: number
  readonly #burst: number
  readonly #risePerMs: number
  #tokens: number
  #filledAt: number
  /** The rate after the last complaint, in tokens per millisecond. */
  #slowedTo: number
  #slowedAt = Number.NEGATIVE_INFINITY

  constructor(limits: { perSecond: number; burst: number }, now: number) {
    this.#setRate = limits.perSecond / 1000
    this.#burst = limits.burst
    this.#risePerMs = (this.#setRate * (1 - FLOOR)) / RECOVERY_MS
    this.#tokens = limits.burst
    this.#filledAt = now
    this.#slowedTo = this.#setRate
  }

  /** Whether one could be had at `now`; it is then taken. */
  tryTake(now: number): boolean {
    this.#fill(now)
    if (this.#tokens < 1) return false
    this.#tokens -= 1
    return true
  }

  /** Milliseconds until the next one can be had, at most. */
  waitMs(now: number): number {
    this.#fill(now)
    return Math.max(0, 1 - this.#tokens) / this.#rateAt(now)
  }

  /** There were too many: what is saved up is lost, and the rate falls. */
  slowDown(now: number): void {
    this.#fill(now)
    this.#tokens = Math.min(this.#tokens, 0)
    if (now - this.#slowedAt < ONE_COMPLAINT_MS) return
    this.#slowedTo = Math.max(this.#setRate * FLOOR, this.#rateAt(now) * SLOWER)
    this.#slowedAt = now
  }

  perSecond(now: number): number {
    return this.#rateAt(now) * 1000
  }

  /** Whether it is as it was made. */
  isFull(now: number): boolean {
    this.#fill(now)
    return this.#tokens >= this.#burst && this.#rateAt(now) >= this.#setRate
  }

  #fill(now: number): void {
    if (now <= this.#filledAt) return
    this.#tokens = Math.min(this.#burst, this.#tokens + this.#gain(this.#filledAt, now))
    this.#filledAt = now
  }

  #rateAt(time: number): number {
    if (this.#slowedTo >= this.#setRate) return this.#setRate
    return Math.min(this.#setRate, this.#slowedTo + this.#risePerMs * (time - this.#slowedAt))
  }

  /** The area under the rate, which rises in a line and then stays. */
  #gain(from: number, to: number): number {
    const recoveredAt = this.#slowedAt + (this.#setRate - this.#slowedTo) / this.#risePerMs
    const turn = Math.min(Math.max(recoveredAt, from), to)
    const rising = ((this.#rateAt(from) + this.#rateAt(turn)) / 2) * (turn - from)
    return rising + this.#setRate * (to - turn)
  }
}
