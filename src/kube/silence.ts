import { type DualTimestamp, dualTimestamp, elapsedSince } from '../lib/moment.ts'
import type { Clock } from '../lib/ports-clock.ts'

export type GapDetection = { afterMs: number; onGap(): void }

/** For how long nothing was heard of a log, of which what was made and deleted meanwhile is in no list. */
export class GapDetector {
  readonly #clock: Clock
  readonly #missed: GapDetection | undefined
  /** All that there was until then is known. */
  #heard: DualTimestamp

  constructor(clock: Clock, missed: GapDetection | undefined) {
    this.#clock = clock
    this.#missed = missed
    this.#heard = dualTimestamp(clock)
  }

  /** @param at absent: now */
  heard(at = dualTimestamp(this.#clock)): void {
    this.#heard = at
  }

  /**
   * Of a list that is read now: whether something may have been missed is told by the first of its objects that is new. Where nothing is,
   * nothing was made that could have been deleted: of a log the newest always stays.
   * @param highest version that was seen before; 0: none
   * @returns what is to be told of the version of each object; undefined where nothing was missed
   */
  listing(highest: number): ((version: number) => void) | undefined {
    const missed = this.#missed
    if (!missed || highest === 0 || elapsedSince(this.#clock, this.#heard) <= missed.afterMs) return undefined
    let isTold = false
    return (version) => {
      if (isTold || version <= highest) return
      isTold = true
      missed.onGap()
    }
  }
}
