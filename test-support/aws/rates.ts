import type { Clock } from '../../src/lib/time.ts'

/** Operations that share a limit in an account and region. */
export type RateFamily = 'deletes' | 'describes' | 'ecr' | 'kms' | 'puts' | 'reads' | 'sts' | 'tags'

/** A token bucket. */
export type Rate = { perSecond: number; burst: number }

export type Rates = Partial<Record<RateFamily, Rate>>

/**
 * The limits of reads and writes are those that AWS has published (40 and 3 per second); the others are unpublished, and small
 * enough to be reached.
 * Source: AWS General Reference, "Systems Manager endpoints and quotas"; Amazon ECR "Service quotas".
 */
export const DEFAULT_RATES: Rates = {
  reads: { perSecond: 40, burst: 40 },
  puts: { perSecond: 3, burst: 3 },
  deletes: { perSecond: 5, burst: 5 },
  describes: { perSecond: 1, burst: 3 },
  tags: { perSecond: 5, burst: 5 },
  ecr: { perSecond: 500, burst: 500 },
}

type Bucket = { tokens: number; filledAt: number }

/** A token bucket per account, region and family, which are few. */
export class RateLimits {
  readonly #clock: Clock
  #rates: Rates
  readonly #buckets = new Map<string, Bucket>()

  constructor(clock: Clock, rates: Rates) {
    this.#clock = clock
    this.#rates = rates
  }

  /** Takes effect immediately, with full buckets. */
  set(rates: Rates): void {
    this.#rates = rates
    this.#buckets.clear()
  }

  /** Takes a token. @returns whether there was one */
  take(account: string, region: string, family: RateFamily): boolean {
    const rate = this.#rates[family]
    if (!rate) return true
    const now = this.#clock.monotonic()
    const key = `${account} ${region} ${family}`
    const { tokens, filledAt } = this.#buckets.get(key) ?? { tokens: rate.burst, filledAt: now }
    const filled = Math.min(rate.burst, tokens + ((now - filledAt) / 1000) * rate.perSecond)
    const taken = filled >= 1
    this.#buckets.set(key, { tokens: taken ? filled - 1 : filled, filledAt: now })
    return taken
  }
}
