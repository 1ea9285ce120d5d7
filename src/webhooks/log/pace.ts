/**
 * How fast retention deletes: evenly, as much as comes in and a little more, and not at once what came at once. Rates are
 * deletes a second.
 */
const SLOWEST_RATE = 100
/** Above what comes in. Half of what a small control plane deletes when it does nothing else. */
const FASTEST_RATE = 500
/** Of what comes in: what was left over becomes less. */
const SURPLUS = 1.2
/** While there is always more to delete than that, the rate doubles in some six minutes. */
const GROWTH = 0.002
/** Outcomes that cannot be stored come first, but a store that is full is helped by deleting. */
const UNHEALTHY_FACTOR = 10
const IDLE_MS = 1000

export type DeletionBatch = {
  deletes: number
  /** There may be more to delete. */
  full: boolean
  /** Milliseconds that it took. */
  tookMs: number
  /** The store did not answer or asked to wait, milliseconds. */
  waitMs?: number | undefined
}

/** Between groups, where the store answers sooner. */
const CYCLE_MS = 40
const SMALLEST_GROUP = 4
/** More would take all connections from what is waited for. A multiple of those that go beside each other. */
const LARGEST_GROUP = 24

export class DeletionRate {
  readonly #share: number
  #grown = SLOWEST_RATE
  /** What the last group took. */
  #tookMs = 0

  /** @param share of the whole rate that goes by this pace, where several go beside each other */
  constructor(share = 1) {
    this.#share = share
  }

  /**
   * Deletes at a time: few, since others wait behind them, but as many as the rate needs of a store that answers
   * slowly. @param arrivals a second
   */
  groupSize(arrivals: number): number {
    const size = Math.ceil((this.#rate(arrivals) * Math.max(CYCLE_MS, this.#tookMs)) / 1000)
    return Math.min(LARGEST_GROUP * this.#share, Math.max(SMALLEST_GROUP * this.#share, size))
  }

  /**
   * Milliseconds to wait after a group of deletes. @param arrivals a second, of what will have to be deleted
   * @param healthy false while outcomes cannot be stored
   */
  waitAfter(group: DeletionBatch, arrivals: number, healthy: boolean): number {
    const keepsUp = !group.full || !healthy
    this.#tookMs = group.tookMs
    this.#grown = keepsUp
      ? SLOWEST_RATE
      : Math.min(FASTEST_RATE, this.#grown + (group.deletes / this.#share) * GROWTH)
    if (group.waitMs !== undefined) return Math.max(IDLE_MS, group.waitMs)
    if (group.deletes === 0) return IDLE_MS
    const even = (group.deletes * 1000) / this.#rate(arrivals)
    return healthy ? Math.max(0, even - group.tookMs) : even * UNHEALTHY_FACTOR
  }

  #rate(arrivals: number): number {
    return Math.max(this.#grown, arrivals * SURPLUS) * this.#share
  }
}
