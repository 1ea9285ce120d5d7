/** How long this replica may act on what it has published: until the others may think that it is gone. */

import { type DualTimestamp, dualTimestamp, elapsedSince } from '../lib/moment.ts'
import type { Clock } from '../lib/ports-clock.ts'

export class LeaseValidity {
  readonly #clock: Clock
  readonly #holdsMs: number
  /** When the last renewal that was acknowledged was asked for. */
  #renewed: DualTimestamp | undefined

  /** @param holdsMs shorter than what the others wait for */
  constructor(clock: Clock, holdsMs: number) {
    this.#clock = clock
    this.#holdsMs = holdsMs
  }

  moment(): DualTimestamp {
    return dualTimestamp(this.#clock)
  }

  /** @param asked when the renewal that was acknowledged was begun */
  renewed(asked: DualTimestamp): void {
    this.#renewed = asked
  }

  get isValid(): boolean {
    return this.ageMs < this.#holdsMs
  }

  /** Milliseconds since the last renewal was asked for, by the clock that tells more. */
  get ageMs(): number {
    return this.#renewed ? elapsedSince(this.#clock, this.#renewed) : Number.POSITIVE_INFINITY
  }
}
