import type { RetryKind } from './errors.ts'

/** Attempts of one call. */
export const MAX_ATTEMPTS = 5
const LONGEST_MS = 4000
/** Before the second attempt; doubled before each further one. */
const FIRST_MS: Record<RetryKind | 'stale', number> = {
  soon: 100,
  later: 400,
  throttled: 400,
  session: 0,
  // Adds up to the time for which reads may lag.
  stale: 400,
}

/**
 * Milliseconds before the next attempt.
 * @param attempt how many were made, 1 or more
 * @param chance uniform in [0, 1)
 */
export function retryWait(why: RetryKind | 'stale', attempt: number, chance: number): number {
  const wait = Math.min(LONGEST_MS, FIRST_MS[why] * 2 ** (attempt - 1))
  return wait * (1 - chance / 2)
}
