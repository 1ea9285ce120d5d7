import { LRUCache } from 'lru-cache'
import { KeyedSums, remainingShare, SharedCapacity } from '../../lib/fair-queue.ts'
import { TokenBucket } from '../../lib/rate-limit.ts'
import type { Clock } from '../../lib/time.ts'
import { Problem } from './problems.ts'

/** What the REST server accepts at once: requests per second, requests in flight, and memory for their bodies. */

export type RequestLimits = {
  /** Requests per second of one key, and of one organization with all its keys. */
  perKey: number
  perOrganization: number
  /** Requests in flight, and those of one organization. */
  requests: number
  requestsPerOrganization: number
  /** Memory for their bodies. */
  bytesInFlight: number
  bytesPerOrganization: number
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
  requestsPerOrganization: 500,
  bytesInFlight: 64 * 1024 * 1024,
  bytesPerOrganization: 16 * 1024 * 1024,
  bodyBytes: 256 * 1024,
  bodyMs: 10_000,
  answerMs: 30_000,
}

/** Text takes up to two bytes for each character, which may be one byte of a body. */
export const TEXT_BYTES = 2
/** For each byte of an event: its text, the payload and the segment that has it, of which one may take two bytes for each. */
export const EVENT_BYTES = 4

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

  /** @param count at most `perSecond`, or it never succeeds */
  take(name: string, count = 1): RateLimitResult {
    const now = this.#clock.monotonic()
    const bucket = this.#buckets.get(name) ?? new TokenBucket(this.perSecond, this.#gain)
    this.#buckets.set(name, bucket)
    const ok = bucket.tryTake(now, count)
    const left = bucket.available(now)
    const missing = ok ? this.perSecond - left : count - left
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

/** Memory for one body, or one response. */
export type Reservation = {
  /** Gives back what is more than that. */
  shrinkTo(bytes: number): void
  /** Holds exactly that. @throws Problem overloaded if there is not so much */
  resizeTo(bytes: number): void
  /** Holds exactly that, even if there is not so much. */
  hold(bytes: number): void
  release(): void
}

type InFlightLimits = Pick<
  RequestLimits,
  'requests' | 'requestsPerOrganization' | 'bytesInFlight' | 'bytesPerOrganization' | 'bodyBytes'
>

/**
 * Bounds the requests in flight, and their memory. One organization gets its share of both, and a reserve is left to organizations that use
 * little, so that slow clients of a few do not keep out the rest.
 */
export class InFlightLimiter {
  readonly #limits: InFlightLimits
  /** Of organizations, which are known after authorization. */
  readonly #admitted: SharedCapacity
  readonly #reserved: KeyedSums
  #requests = 0

  constructor(limits: InFlightLimits) {
    this.#limits = limits
    this.#admitted = new SharedCapacity(limits.requests, limits.requestsPerOrganization)
    this.#reserved = new KeyedSums(limits.bytesPerOrganization)
  }

  get requests(): number {
    return this.#requests
  }

  get bytes(): number {
    return this.#reserved.total
  }

  /** Counts a request. @returns the function that releases its slot @throws Problem overloaded */
  enter(): () => void {
    if (this.#requests >= this.#limits.requests) throw overloaded()
    this.#requests += 1
    return once(() => {
      this.#requests -= 1
    })
  }

  /** Counts an authorized request for its organization. @returns as `enter` @throws Problem overloaded */
  admit(organization: string): () => void {
    if (!this.#admitted.hasRoom(organization)) throw overloaded()
    this.#admitted.take(organization, 1)
    return once(() => this.#admitted.give(organization, 1))
  }

  /** @throws Problem overloaded */
  reserve(organization: string, bytes: number): Reservation {
    let held = 0
    const hold = (wanted: number) => {
      this.#reserved.add(organization, wanted - held)
      held = wanted
    }
    const resizeTo = (wanted: number) => {
      if (wanted > held && this.#room(organization) < wanted - held) throw overloaded()
      hold(wanted)
    }
    resizeTo(bytes)
    return { resizeTo, hold, shrinkTo: (left) => hold(Math.min(held, left)), release: () => hold(0) }
  }

  #room(organization: string): number {
    const { bytesInFlight, bytesPerOrganization, bodyBytes } = this.#limits
    const limits = { organization: bytesPerOrganization, all: bytesInFlight }
    const used = { organization: this.#reserved.of(organization), all: this.#reserved.fairTotal }
    // A share of the reserve is enough for the largest event, which takes that without a length, too.
    return remainingShare(used, limits, EVENT_BYTES * bodyBytes)
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
