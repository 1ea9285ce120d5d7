import { LRUCache } from 'lru-cache'
import type { Clock } from '../ports/clock.ts'

const KNOWN_FOR_MS = 60 * 60_000
const MOST_KEYS = 10_000
/**
 * An API server whose own look-ups fail, as one that has just started, refuses a valid key in the same words as a
 * revoked one; a client that is told so gives up. So a key that was valid is refused for good only after so long.
 */
const DOUBTED_FOR_MS = 10_000

/** @param refusedSince monotonic */
type Known = { refusedSince: number | undefined }

/** Keys that were valid within the last hour, by their hash. */
export class KnownKeys {
  readonly #clock: Pick<Clock, 'monotonic'>
  readonly #known: LRUCache<string, Known>

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock
    this.#known = new LRUCache({
      max: MOST_KEYS,
      ttl: KNOWN_FOR_MS,
      ttlResolution: 0,
      perf: { now: () => clock.monotonic() + 1 },
    })
  }

  has(hash: string): boolean {
    return this.#known.has(hash)
  }

  accepted(hash: string): void {
    this.#known.set(hash, { refusedSince: undefined })
  }

  /** The API server has refused it. @returns whether that may be a mistake, and the key is to be tried again */
  refused(hash: string): boolean {
    const known = this.#known.get(hash)
    if (!known) return false
    const now = this.#clock.monotonic()
    known.refusedSince ??= now
    if (now - known.refusedSince < DOUBTED_FOR_MS) return true
    this.#known.delete(hash)
    return false
  }
}
