import { LRUCache } from 'lru-cache'
import type { Clock } from '../../lib/ports-clock.ts'

export type KeyedRateLimiterOptions = {
  clock: Pick<Clock, 'monotonic'>
  /** Requests a second, and how many may come at once. */
  perSecond: number
}

export type RateLimitResult = {
  ok: boolean
  /** How many more there are now. */
  left: number
  /** Until there is one again, or until all are there again, in whole seconds, at least 1. */
  resetS: number
}

type Bucket = { tokens: number; filledAt: number }

/** Whoever is forgotten among so many has had time to fill up. */
const MOST_BUCKETS = 20_000

/** A token bucket for each name. */
export class KeyedRateLimiter {
  readonly perSecond: number
  readonly #clock: Pick<Clock, 'monotonic'>
  readonly #buckets = new LRUCache<string, Bucket>({ max: MOST_BUCKETS })

  constructor({ clock, perSecond }: KeyedRateLimiterOptions) {
    this.#clock = clock
    this.perSecond = perSecond
  }

  take(name: string): RateLimitResult {
    const now = this.#clock.monotonic()
    const bucket = this.#buckets.get(name) ?? { tokens: this.perSecond, filledAt: now }
    const filled = bucket.tokens + ((now - bucket.filledAt) * this.perSecond) / 1000
    const tokens = Math.min(this.perSecond, filled)
    const ok = tokens >= 1
    const left = ok ? tokens - 1 : tokens
    this.#buckets.set(name, { tokens: left, filledAt: now })
    const missing = ok ? this.perSecond - left : 1 - left
    return { ok, left: Math.floor(left), resetS: Math.max(1, Math.ceil(missing / this.perSecond)) }
  }
}

/** Headers of one or two limits, as draft-ietf-httpapi-ratelimit-headers has them. */
export function rateLimitHeaders(limits: Record<string, { taken: RateLimitResult; perSecond: number }>): {
  ratelimit: string
  'ratelimit-policy': string
} {
  const entries = Object.entries(limits)
  return {
    ratelimit: entries.map(([name, { taken }]) => `"${name}";r=${taken.left};t=${taken.resetS}`).join(', '),
    'ratelimit-policy': entries.map(([name, { perSecond }]) => `"${name}";q=${perSecond};w=1`).join(', '),
  }
}
