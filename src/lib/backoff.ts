import type { Random } from './ports-clock.ts'

export type BackoffLimits = { firstMs: number; longestMs: number }

/**
 * The wait after the `failures`-th failure in a row (1 is the first): doubles up to the longest, and is spread
 * over the upper half of that, so that many who failed together do not come back together.
 */
export function backoffMs(failures: number, limits: BackoffLimits, random: Random): number {
  const doublings = Math.min(Math.max(0, failures - 1), 40)
  const wait = Math.min(limits.longestMs, limits.firstMs * 2 ** doublings)
  return wait * (0.5 + random.fraction() / 2)
}
