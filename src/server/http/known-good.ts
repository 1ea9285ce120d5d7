import { LRUCache } from 'lru-cache'
import type { Clock } from '../../lib/ports-clock.ts'
import { Problem } from './problems.ts'

const KNOWN_FOR_MS = 60 * 60_000

export type StickyAllowCacheOptions = {
  clock: Pick<Clock, 'monotonic'>
  /** Things remembered. */
  most: number
  /** A refusal of what was good before may be a mistake until it has lasted for so long, in milliseconds. */
  believedAfterMs: number
}

/** @param refusedSince monotonic */
type Known = { refusedSince: number | undefined }

/**
 * What the API server has accepted within the last hour. One whose own look-ups fail, as one that has just started, refuses
 * in the same words as if a key were revoked or a right taken away; a client that is told so gives up. So what was good
 * is refused for good only after a while.
 */
export class StickyAllowCache {
  readonly #options: StickyAllowCacheOptions
  readonly #known: LRUCache<string, Known>

  constructor(options: StickyAllowCacheOptions) {
    this.#options = options
    this.#known = new LRUCache({
      max: options.most,
      ttl: KNOWN_FOR_MS,
      ttlResolution: 0,
      perf: { now: () => options.clock.monotonic() + 1 },
    })
  }

  has(name: string): boolean {
    return this.#known.has(name)
  }

  accepted(name: string): void {
    this.#known.set(name, { refusedSince: undefined })
  }

  /** The API server has refused it. @returns whether that may be a mistake, and it is to be asked again */
  refused(name: string): boolean {
    const known = this.#known.get(name)
    if (!known) return false
    const { clock, believedAfterMs } = this.#options
    const now = clock.monotonic()
    known.refusedSince ??= now
    if (now - known.refusedSince < believedAfterMs) return true
    this.#known.delete(name)
    return false
  }
}

/** Of a refusal that may be a mistake: the client comes again. @param detail what was refused */
export function transientDenial(detail: string): Problem {
  return new Problem('unavailable', { detail, headers: { 'retry-after': '1' } })
}
