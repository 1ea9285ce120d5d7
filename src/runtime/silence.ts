import type { Clock } from '../ports/clock.ts'
import { elapsedSince, type Moment, momentOf } from './moment.ts'

export type Missed = { afterMs: number; tell(): void }

/** For how long nothing was heard of a log, of which what was made and deleted meanwhile is in no list. */
export class Silence {
  readonly #clock: Clock
  readonly #missed: Missed | undefined
  /** All that there was until then is known. */
  #heard: Moment

  constructor(clock: Clock, missed: Missed | undefined) {
    this.#clock = clock
    this.#missed = missed
    this.#heard = momentOf(clock)
  }

  /** @param at absent: now */
  heard(at = momentOf(this.#clock)): void {
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
      missed.tell()
    }
  }
}
