import { NAME_ENTROPY_BYTES, sortableName, timeOfName } from '../../domain/message-id.ts'
import type { Clock, Random } from '../../ports/clock.ts'

/** No clock says so; whoever has made such a name, room to count on from there has to be left. */
const NEVER = 2 ** 47

/**
 * Names of the segments of one sequence. A list by name has to begin with what was written last, also where the clock of a writer is
 * ahead: so each name is newer than all that its writer has made or seen, and its time is that of the clock only where that is later.
 */
export class SegmentNames {
  readonly #clock: Clock
  readonly #random: Random
  /** By names, milliseconds since 1970. */
  #newest = 0

  constructor({ clock, random }: { clock: Clock; random: Random }) {
    this.#clock = clock
    this.#random = random
  }

  next(): string {
    this.#newest = Math.max(Math.floor(this.#clock.now()), this.#newest + 1)
    return sortableName(this.#newest, this.#random.bytes(NAME_ENTROPY_BYTES))
  }

  /** Of one that is there, whoever has made it. A name that Davit did not make tells no time. */
  saw(name: string): void {
    const time = timeOfName(name)
    if (time < NEVER) this.#newest = Math.max(this.#newest, time)
  }
}
