/** How much comes in a second, smoothed: what came at once counts as if it had come over minutes. */
const SMOOTHED_OVER_MS = 120_000

export class ArrivalRate {
  #perMs = 0
  #at = 0

  /** @param monotonic milliseconds */
  arrived(monotonic: number): void {
    this.#perMs = this.#decayed(monotonic) + 1 / SMOOTHED_OVER_MS
    this.#at = monotonic
  }

  perSecond(monotonic: number): number {
    return this.#decayed(monotonic) * 1000
  }

  #decayed(monotonic: number): number {
    return this.#perMs * Math.exp((this.#at - monotonic) / SMOOTHED_OVER_MS)
  }
}
