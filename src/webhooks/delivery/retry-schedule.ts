/** When a failed delivery is attempted again (interface §8). */

export const MAX_ATTEMPTS = 8

const SECOND = 1000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE

/** Waits after the first, second, ... seventh failed attempt. */
const WAITS_MS = [30 * SECOND, 2 * MINUTE, 10 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 5 * HOUR] as const

const LAST_WAIT_MS = 5 * HOUR
/**
 * Delay before a delivery that was set aside is retried. Long enough that everything else gets through even if each retry
 * crashes the process.
 */
export const SET_ASIDE_MS = 5 * MINUTE

const ORDERED_CADENCE_MS = 3 * MINUTE

/** Upper bound on the wait after `made` attempts. Caps due times that were stored by a clock running ahead. */
export function longestWaitMs(made: number, scale: number): number {
  const usual = made === 0 ? 0 : Math.max(WAITS_MS[made - 1] ?? LAST_WAIT_MS, ORDERED_CADENCE_MS)
  return Math.ceil(Math.max(usual, SET_ASIDE_MS) * scale)
}

export type SchedulePolicy = {
  ordered: boolean
  /** Factor on every wait; 1 except in demonstrations. */
  scale: number
}

/**
 * When the next attempt after `made` is due, in milliseconds since 1970; undefined if none is left.
 * Unordered: the documented wait times 0.5 to 1, from the end of the attempt. Ordered: every three minutes
 * from start to start, without jitter.
 * @param fraction uniform in [0, 1)
 */
export function nextAttemptAt(
  made: number,
  times: { startedAt: number; endedAt: number },
  policy: SchedulePolicy,
  fraction: number,
): number | undefined {
  if (made >= MAX_ATTEMPTS) return undefined
  if (policy.ordered)
    return Math.max(times.endedAt, times.startedAt + Math.ceil(ORDERED_CADENCE_MS * policy.scale))
  const wait = WAITS_MS[Math.max(0, made - 1)] ?? LAST_WAIT_MS
  return times.endedAt + Math.ceil(wait * policy.scale * (1 - fraction / 2))
}
