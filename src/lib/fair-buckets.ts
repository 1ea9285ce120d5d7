import type { Clock } from './ports-clock.ts'
import { FairRateLimiter, type FairRateLimits } from './rate-limit.ts'
import { type RateLimiter, RateLimiterFullError } from './turns.ts'

/** One bucket for each key, such as an account and region, for as long as it is not at rest. */
export class FairRateLimiters {
  readonly #clock: Clock
  readonly #limits: FairRateLimits & { maxKeys: number }
  readonly #buckets = new Map<string, FairRateLimiter>()

  constructor(clock: Clock, limits: FairRateLimits & { maxKeys: number }) {
    this.#clock = clock
    this.#limits = limits
  }

  /** Takers that wait at any of them. */
  get waiting(): number {
    let waiting = 0
    for (const bucket of this.#buckets.values()) waiting += bucket.waiting
    return waiting
  }

  /** Buckets that are slower than was set, since there were too many calls. */
  get slowed(): number {
    let slowed = 0
    for (const bucket of this.#buckets.values()) if (bucket.perSecond < this.#limits.perSecond) slowed += 1
    return slowed
  }

  /** Turns at `key`. What is returned may be kept: it finds the bucket anew at each call. */
  forKey(key: string): RateLimiter {
    return {
      acquire: async (flow, options) => await this.#bucketOf(key).acquire(flow, options),
      slowDown: () => this.#buckets.get(key)?.slowDown(),
    }
  }

  #bucketOf(key: string): FairRateLimiter {
    const known = this.#buckets.get(key)
    if (known) return known
    if (this.#buckets.size >= this.#limits.maxKeys) this.#forgetResting()
    if (this.#buckets.size >= this.#limits.maxKeys) throw new RateLimiterFullError()
    const bucket = new FairRateLimiter(this.#clock, this.#limits)
    this.#buckets.set(key, bucket)
    return bucket
  }

  /** A bucket at rest is like a new one, so that nothing is lost with it. */
  #forgetResting(): void {
    for (const [key, bucket] of this.#buckets) if (bucket.isIdle) this.#buckets.delete(key)
  }
}
