/**
 * How fast retention deletes: off the hot path, evenly, and faster only when it does not keep up. Rates are
 * deletes a second.
 */
const SLOWEST_RATE = 100
/** Half of what a small control plane deletes when it does nothing else. */
const FASTEST_RATE = 500
/** While there is always more to delete, the rate doubles in some 35 seconds. */
const GROWTH = 0.02
/** Outcomes that cannot be stored come first, but a store that is full is helped by deleting. */
const UNHEALTHY_FACTOR = 10
const IDLE_MS = 1000

export type Group = {
  deletes: number
  /** There may be more to delete. */
  full: boolean
  /** The store did not answer or asked to wait, milliseconds. */
  waitMs?: number | undefined
}

export class Pace {
  #rate = SLOWEST_RATE

  /** Milliseconds to wait after a group of deletes. @param healthy false while outcomes cannot be stored */
  waitAfter(group: Group, healthy: boolean): number {
    const keepsUp = !group.full || !healthy
    this.#rate = keepsUp ? SLOWEST_RATE : Math.min(FASTEST_RATE, this.#rate + group.deletes * GROWTH)
    if (group.waitMs !== undefined) return Math.max(IDLE_MS, group.waitMs)
    if (group.deletes === 0) return IDLE_MS
    return ((group.deletes * 1000) / this.#rate) * (healthy ? 1 : UNHEALTHY_FACTOR)
  }
}
