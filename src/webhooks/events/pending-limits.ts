/** How many deliveries may wait at once before new events do (settled, "Events and deliveries"). */

/** Deliveries, or the most of them. */
export type Pending = { organization: number; all: number }

/** Kept for organizations that hold little, so that full ones do not stop the rest. */
const RESERVE = 0.1
/** Of the reserve, at least so many organizations get a share. */
const SHARES = 20

/** @returns how many more deliveries an organization may have; 0 when its events have to wait */
export function remainingQuota(pending: Pending, limits: Pending): number {
  const reserve = Math.floor(limits.all * RESERVE)
  const ofItsOwn = limits.organization - pending.organization
  const unreserved = limits.all - reserve - pending.all
  const share = Math.min(Math.ceil(reserve / SHARES) - pending.organization, limits.all - pending.all)
  return Math.max(0, Math.min(ofItsOwn, Math.max(unreserved, share)))
}
