import { LRUCache } from 'lru-cache'
import { TokenBucket } from '../../lib/rate-limit.ts'
import type { Clock } from '../../lib/time.ts'
import { Problem } from './problems.ts'

/** What the REST server accepts at once: requests per second, requests in flight, and their bytes. */

export type RequestLimits = {
  /** Requests per second of one key, and of one organization with all its keys. */
  perKey: number
  perOrganization: number
  /** Requests in flight. */
  requests: number
  /** Bytes of their bodies in total. */
  bytesInFlight: number
  bodyBytes: number
  /** Time for the body to arrive. */
  bodyMs: number
  /** Time for the response after that. */
  answerMs: number
}

export const REQUEST_LIMITS: RequestLimits = {
  perKey: 10_000,
  perOrganization: 10_000,
  requests: 1_000,
  bytesInFlight: 16 * 1024 * 1024,
  bodyBytes: 256 * 1024,
  bodyMs: 10_000,
  answerMs: 30_000,
}

/** @param left requests left now @param resetS whole seconds, at least 1, until one is left again or until all are */
export type RateLimitResult = { ok: boolean; left: number; resetS: number }

/** A bucket that is evicted among so many has had time to fill up. */
const MAX_BUCKETS = 20_000

/** A token bucket for each name. */
export class KeyedRateLimiter {
  readonly perSecond: number
  readonly #clock: Pick<Clock, 'monotonic'>
  readonly #buckets = new LRUCache<string, TokenBucket>({ max: MAX_BUCKETS })
  readonly #gain = (from: number, to: number) => ((to - from) * this.perSecond) / 1000

  /** @param perSecond also the burst */
  constructor(clock: Pick<Clock, 'monotonic'>, perSecond: number) {
    this.#clock = clock
    this.perSecond = perSecond
  }

  take(name: string): RateLimitResult {
    const now = this.#clock.monotonic()
    const bucket = this.#buckets.get(name) ?? new TokenBucket(this.perSecond, this.#gain)
    this.#buckets.set(name, bucket)
    const ok = bucket.tryTake(now)
    const left = bucket.available(now)
    const missing = ok ? this.perSecond - left : 1 - left
    return { ok, left: Math.floor(left), resetS: Math.max(1, Math.ceil(missing / this.perSecond)) }
  }
}

/** The headers of draft-ietf-httpapi-ratelimit-headers. */
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

/** Bounds the memory of requests in flight. */
export class InFlightLimiter {
  readonly #maxRequests: number
  readonly #maxBytes: number
  #requests = 0
  #bytes = 0

  constructor(maxRequests: number, maxBytes: number) {
    this.#maxRequests = maxRequests
    this.#maxBytes = maxBytes
  }

  get requests(): number {
    return this.#requests
  }

  get bytes(): number {
    return this.#bytes
  }

  /** @returns the function that releases the slot @throws Problem overloaded */
  enter(): () => void {
    if (this.#requests >= this.#maxRequests) throw overloaded()
    this.#requests += 1
    return once(() => {
      this.#requests -= 1
    })
  }

  /** @returns the function that releases the bytes @throws Problem overloaded */
  reserve(bytes: number): () => void {
    if (this.#bytes + bytes > this.#maxBytes) throw overloaded()
    this.#bytes += bytes
    return once(() => {
      this.#bytes -= bytes
    })
  }
}

export function overloaded(): Problem {
  return new Problem('overloaded')
}

function once(run: () => void): () => void {
  let done = false
  return () => {
    if (!done) run()
    done = true
  }
}
