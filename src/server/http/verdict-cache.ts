import { LRUCache } from 'lru-cache'
import type { Clock } from '../../lib/ports-clock.ts'

export type ReviewCacheOptions<V> = {
  clock: Pick<Clock, 'monotonic'>
  /** Verdicts held. */
  most: number
  /** How long a verdict holds, in milliseconds; 0 or less: not at all. */
  keepMs: (verdict: V) => number
}

/** Verdicts of the API server for some seconds. A question that is asked twice at once is asked once; errors are not kept. */
export class ReviewCache<V> {
  readonly #known: LRUCache<string, { verdict: V }>
  readonly #asked = new Map<string, Promise<V>>()
  readonly #options: ReviewCacheOptions<V>

  constructor(options: ReviewCacheOptions<V>) {
    this.#options = options
    this.#known = new LRUCache({
      max: options.most,
      ttlResolution: 0,
      perf: { now: () => options.clock.monotonic() + 1 },
    })
  }

  /** @throws whatever `ask` throws */
  get(key: string, ask: () => Promise<V>): Promise<V> {
    const known = this.#known.get(key)
    if (known) return Promise.resolve(known.verdict)
    const asked = this.#asked.get(key)
    if (asked) return asked
    const answer = ask()
      .then((verdict) => this.#keep(key, verdict))
      .finally(() => this.#asked.delete(key))
    this.#asked.set(key, answer)
    return answer
  }

  #keep(key: string, verdict: V): V {
    const ttl = this.#options.keepMs(verdict)
    if (ttl > 0) this.#known.set(key, { verdict }, { ttl })
    return verdict
  }
}
