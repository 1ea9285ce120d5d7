/** How long kubelet may keep a login. */

/** Clocks differ, and a pull takes a while. */
const SPARE_SECONDS = 60
/** Half of the longest life that there is; more is left only by a clock that is wrong. */
const MAX_SECONDS = 6 * 3600

/**
 * Half of what is left of its life, so that a pull which begins with it ends with it; what nothing ends is kept for `seconds`,
 * so that a secret which was replaced is used no longer than that.
 */
export function cacheSeconds(login: { expiresAt?: number }, of: { now: number; seconds: number }): number {
  if (login.expiresAt === undefined) return of.seconds
  const left = Math.floor((login.expiresAt - of.now) / 1000)
  return left <= SPARE_SECONDS ? 0 : Math.min(Math.floor(left / 2), MAX_SECONDS)
}

/** As Go reads a duration. */
export function goDuration(seconds: number): string {
  return `${seconds}s`
}
