/** How long this replica may act on what it has published: until the others may think that it is gone. */
import type { Clock } from '../../ports/clock.ts'

type Moment = { monotonic: number; wall: number }

export class Lease {
  readonly #clock: Clock
  readonly #holdsMs: number
  /** When the last renewal that was acknowledged was asked for. */
  #renewed: Moment | undefined

  /** @param holdsMs shorter than what the others wait for */
  constructor(clock: Clock, holdsMs: number) {
    this.#clock = clock
    this.#holdsMs = holdsMs
  }

  moment(): Moment {
    return { monotonic: this.#clock.monotonic(), wall: this.#clock.now() }
  }

  /** @param asked when the renewal that was acknowledged was begun */
  renewed(asked: Moment): void {
    this.#renewed = asked
  }

  /**
   * By both clocks: the monotonic one of a machine that slept may stand still, and the other one may be set back.
   */
  get isValid(): boolean {
    if (!this.#renewed) return false
    const { monotonic, wall } = this.moment()
    return monotonic - this.#renewed.monotonic < this.#holdsMs && wall - this.#renewed.wall < this.#holdsMs
  }

  /** Milliseconds since the last renewal was asked for, by the clock that tells more. */
  get ageMs(): number {
    if (!this.#renewed) return Number.POSITIVE_INFINITY
    const { monotonic, wall } = this.moment()
    return Math.max(monotonic - this.#renewed.monotonic, wall - this.#renewed.wall)
  }
}
