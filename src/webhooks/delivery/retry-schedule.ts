/** When a failed delivery is attempted again (interface §8). */

/** Attempts of one delivery in total. */
export const MAX_ATTEMPTS = 8

const SECOND = 1000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE

/** Waits after the first, second, ... seventh failed attempt. */
const WAITS_MS = [30 * SECOND, 2 * MINUTE, 10 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 5 * HOUR] as const

const LAST_WAIT_MS = 5 * HOUR
/**
 * Of a delivery that is set aside: long enough that a process which ends at each such attempt delivers everything else in
 * between.
 */
export const SET_ASIDE_MS = 5 * MINUTE

/** From the start of one attempt of an ordered endpoint to the start of the next. */
const ORDERED_CADENCE_MS = 3 * MINUTE

/**
 * Milliseconds that the attempt after the `made`-th is waited for at most, whatever the policy was. A time that was stored may be of a
 * clock that was ahead: nothing waits longer than this from now.
 */
export function longestWaitMs(made: number, scale: number): number {
  if (made === 0) return Math.ceil(SET_ASIDE_MS * scale)
  return Math.ceil(Math.max(WAITS_MS[made - 1] ?? LAST_WAIT_MS, ORDERED_CADENCE_MS) * scale)
}

export type AttemptTimes = { startedAt: number; endedAt: number }

export type SchedulePolicy = {
  ordered: boolean
  /** Factor on every wait; 1 but in demonstrations. */
  scale: number
}

/**
 * When the attempt after the `made`-th is due, in milliseconds since 1970; undefined when none is left.
 * Unordered: the documented wait times 0.5 to 1, from the end of the attempt. Ordered: every three minutes
 * from start to start, without jitter.
 * @param fraction uniform in [0, 1)
 */
export function nextAttemptAt(
  made: number,
  times: AttemptTimes,
  policy: SchedulePolicy,
  fraction: number,
): number | undefined {
  if (made >= MAX_ATTEMPTS) return undefined
  if (policy.ordered) {
    return Math.max(times.endedAt, times.startedAt + Math.ceil(ORDERED_CADENCE_MS * policy.scale))
  }
  const wait = WAITS_MS[Math.max(0, made - 1)] ?? LAST_WAIT_MS
  return times.endedAt + Math.ceil(wait * policy.scale * (1 - fraction / 2))
}
