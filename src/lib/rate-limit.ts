import type { Clock } from './time.ts'

/** Rate limits: a token bucket, one that adapts to complaints, and a fair queue in front of it. */

/** A rate limit that several flows share. */
export interface RateLimiter {
  /**
   * Waits for a turn.
   * @throws RateLimiterFullError if too many wait; the reason of `signal` if it aborts first
   */
  acquire(flow: string, options?: AcquireOptions): Promise<void>
  /** The other side complained of too many calls. */
  slowDown(): void
}

export type AcquireOptions = {
  signal?: AbortSignal
  /** Its last turn failed, so it goes before the others of its flow. */
  isRetry?: boolean
}

/** Too many wait for a turn already. */
export class RateLimiterFullError extends Error {
  override readonly name = 'TurnsFullError'

  constructor() {
    super('too many calls are queued')
  }
}

/** A full token bucket. Times are milliseconds of any clock that never goes back. */
export class TokenBucket {
  readonly #burst: number
  readonly #gain: (from: number, to: number) => number
  #tokens: number
  /** When the tokens were counted; undefined while the bucket has always been full. */
  #asOf: number | undefined

  /** @param gain tokens that come between two times, in addition to those of before */
  constructor(burst: number, gain: (from: number, to: number) => number) {
    this.#burst = burst
    this.#gain = gain
    this.#tokens = burst
  }

  available(now: number): number {
    if (this.#asOf === undefined || now <= this.#asOf) return this.#tokens
    return Math.min(this.#burst, this.#tokens + this.#gain(this.#asOf, now))
  }

  /** Takes so many tokens if they are there. */
  tryTake(now: number, count = 1): boolean {
    const tokens = this.available(now)
    if (tokens < count) return false
    this.set(tokens - count, now)
    return true
  }

  set(tokens: number, now: number): void {
    this.#tokens = tokens
    this.#asOf = this.#asOf === undefined ? now : Math.max(now, this.#asOf)
  }
}

/** Factor of the rate after a complaint. */
const SLOWER = 0.7
/** The rate never falls below this part of the configured rate. */
const FLOOR = 0.1
/** From the floor to the configured rate. Slow, since every complaint on the way is a failed call. */
const RECOVERY_MS = 120_000
/** Complaints about calls that were in flight together count once. */
const ONE_COMPLAINT_MS = 1000

/**
 * A token bucket whose rate falls by a factor when the other side complains of too many calls, and rises linearly back to
 * the configured rate.
 */
export class AdaptiveTokenBucket {
  readonly #maxRate: number
  readonly #burst: number
  readonly #risePerMs: number
  readonly #bucket: TokenBucket
  /** The rate after the last complaint, in tokens per millisecond. */
  #slowedTo: number
  #slowedAt = Number.NEGATIVE_INFINITY

  constructor(limits: { perSecond: number; burst: number }) {
    this.#maxRate = limits.perSecond / 1000
    this.#burst = limits.burst
    this.#risePerMs = (this.#maxRate * (1 - FLOOR)) / RECOVERY_MS
    this.#slowedTo = this.#maxRate
    this.#bucket = new TokenBucket(limits.burst, (from, to) => this.#gain(from, to))
  }

  /** Takes a token if there is one. */
  tryTake(now: number): boolean {
    return this.#bucket.tryTake(now)
  }

  /** Milliseconds until the next token is there, at most. */
  waitMs(now: number): number {
    return Math.max(0, 1 - this.#bucket.available(now)) / this.#rateAt(now)
  }

  /** There were too many calls: saved tokens are lost, and the rate falls. */
  slowDown(now: number): void {
    this.#bucket.set(Math.min(this.#bucket.available(now), 0), now)
    if (now - this.#slowedAt < ONE_COMPLAINT_MS) return
    this.#slowedTo = Math.max(this.#maxRate * FLOOR, this.#rateAt(now) * SLOWER)
    this.#slowedAt = now
  }

  perSecond(now: number): number {
    return this.#rateAt(now) * 1000
  }

  /** Whether it is as it was made. */
  isFull(now: number): boolean {
    return this.#bucket.available(now) >= this.#burst && this.#rateAt(now) >= this.#maxRate
  }

  #rateAt(time: number): number {
    if (this.#slowedTo >= this.#maxRate) return this.#maxRate
    return Math.min(this.#maxRate, this.#slowedTo + this.#risePerMs * (time - this.#slowedAt))
  }

  /** The area under the rate, which rises in a line and then stays. */
  #gain(from: number, to: number): number {
    const recoveredAt = this.#slowedAt + (this.#maxRate - this.#slowedTo) / this.#risePerMs
    const turn = Math.min(Math.max(recoveredAt, from), to)
    const rising = ((this.#rateAt(from) + this.#rateAt(turn)) / 2) * (turn - from)
    return rising + this.#maxRate * (to - turn)
  }
}

export type FairRateLimits = {
  /** The rate at the start, never exceeded. */
  perSecond: number
  /** Turns at once after a pause, 1 or more. */
  burst: number
  /** Limits of waiting callers, of all flows and of one. */
  maxWaiting: number
  maxWaitingOfFlow: number
}

type Waiter = { grant(): void }

/** Waiting callers of one flow: retries go first. */
type Flow = { again: Set<Waiter>; first: Set<Waiter> }

/**
 * A token bucket whose waiting flows take turns one by one; within a flow, retries go first, then in order. It slows
 * down at complaints and recovers by itself. It has a timer only while callers wait.
 */
export class FairRateLimiter implements RateLimiter {
  readonly #clock: Clock
  readonly #limits: FairRateLimits
  readonly #level: AdaptiveTokenBucket
  /** Flows with waiting callers; the first flow is next. */
  readonly #flows = new Map<string, Flow>()
  #waiting = 0
  #stopTimer: (() => void) | undefined

  constructor(clock: Clock, limits: FairRateLimits) {
    this.#clock = clock
    this.#limits = limits
    this.#level = new AdaptiveTokenBucket(limits)
  }

  /** Waiting callers. */
  get waiting(): number {
    return this.#waiting
  }

  get perSecond(): number {
    return this.#level.perSecond(this.#clock.monotonic())
  }

  /** Whether no caller waits and a new bucket would be the same. */
  get isIdle(): boolean {
    return this.#waiting === 0 && this.#level.isFull(this.#clock.monotonic())
  }

  async acquire(flow: string, { signal, isRetry = false }: AcquireOptions = {}): Promise<void> {
    signal?.throwIfAborted()
    if (this.#waiting === 0 && this.#level.tryTake(this.#clock.monotonic())) return
    if (this.#isFull(flow)) throw new RateLimiterFullError()
    await this.#wait(flow, isRetry, signal)
  }

  slowDown(): void {
    this.#level.slowDown(this.#clock.monotonic())
  }

  #isFull(flow: string): boolean {
    const { maxWaiting, maxWaitingOfFlow } = this.#limits
    return this.#waiting >= maxWaiting || sizeOf(this.#flows.get(flow)) >= maxWaitingOfFlow
  }

  #wait(flow: string, isRetry: boolean, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const leave = () => {
        this.#remove(flow, waiter)
        reject(signal?.reason)
      }
      const waiter = {
        grant() {
          signal?.removeEventListener('abort', leave)
          resolve()
        },
      }
      signal?.addEventListener('abort', leave, { once: true })
      const of = this.#flows.get(flow) ?? { again: new Set(), first: new Set() }
      this.#flows.set(flow, of)
      of[isRetry ? 'again' : 'first'].add(waiter)
      this.#waiting += 1
      this.#plan()
    })
  }

  #remove(flow: string, waiter: Waiter): void {
    const of = this.#flows.get(flow)
    if (!of?.again.delete(waiter) && !of?.first.delete(waiter)) return
    this.#waiting -= 1
    if (sizeOf(of) === 0) this.#flows.delete(flow)
    if (this.#waiting === 0) this.#stop()
  }

  #plan(): void {
    if (this.#stopTimer !== undefined || this.#waiting === 0) return
    // Node's timers count whole milliseconds; at least one, since rounding could make it fire too early.
    const wait = Math.max(1, Math.ceil(this.#level.waitMs(this.#clock.monotonic())))
    this.#stopTimer = this.#clock.after(wait, () => {
      this.#stopTimer = undefined
      this.#serve()
    })
  }

  #stop(): void {
    this.#stopTimer?.()
    this.#stopTimer = undefined
  }

  #serve(): void {
    const now = this.#clock.monotonic()
    while (this.#waiting > 0 && this.#level.tryTake(now)) this.#grantNext()
    this.#plan()
  }

  #grantNext(): void {
    for (const [flow, of] of this.#flows) {
      // The next of this flow comes after one of each other waiting flow.
      this.#flows.delete(flow)
      const waiters = of.again.size > 0 ? of.again : of.first
      for (const waiter of waiters) {
        waiters.delete(waiter)
        this.#waiting -= 1
        if (sizeOf(of) > 0) this.#flows.set(flow, of)
        waiter.grant()
        return
      }
    }
  }
}

function sizeOf(flow: Flow | undefined): number {
  return flow ? flow.again.size + flow.first.size : 0
}

/** One limiter per key (such as an account and region), as long as it is not idle. */
export class FairRateLimiters {
  readonly #clock: Clock
  readonly #limits: FairRateLimits & { maxKeys: number }
  readonly #buckets = new Map<string, FairRateLimiter>()

  constructor(clock: Clock, limits: FairRateLimits & { maxKeys: number }) {
    this.#clock = clock
    this.#limits = limits
  }

  /** Waiting callers of all limiters. */
  get waiting(): number {
    let waiting = 0
    for (const bucket of this.#buckets.values()) waiting += bucket.waiting
    return waiting
  }

  /** Limiters that complaints have slowed down. */
  get slowed(): number {
    let slowed = 0
    for (const bucket of this.#buckets.values()) if (bucket.perSecond < this.#limits.perSecond) slowed += 1
    return slowed
  }

  /** The limiter of `key`. The result may be kept: it looks the limiter up at each call. */
  forKey(key: string): RateLimiter {
    return {
      acquire: async (flow, options) => await this.#bucketOf(key).acquire(flow, options),
      slowDown: () => this.#buckets.get(key)?.slowDown(),
    }
  }

  #bucketOf(key: string): FairRateLimiter {
    const known = this.#buckets.get(key)
    if (known) return known
    if (this.#buckets.size >= this.#limits.maxKeys) this.#forgetIdle()
    if (this.#buckets.size >= this.#limits.maxKeys) throw new RateLimiterFullError()
    const bucket = new FairRateLimiter(this.#clock, this.#limits)
    this.#buckets.set(key, bucket)
    return bucket
  }

  /** An idle limiter is like a new one, so nothing is lost. */
  #forgetIdle(): void {
    for (const [key, bucket] of this.#buckets) if (bucket.isIdle) this.#buckets.delete(key)
  }
}
