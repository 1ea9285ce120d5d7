import { NAME_ENTROPY_BYTES, sortableName, timeOfName } from '../../apis/ids.ts'
import type { ResourceType } from '../../apis/meta.ts'
import type { ResourceReader } from '../../kube/client.ts'
import type { Clock, Random } from '../../lib/ports-clock.ts'

/** No clock says so; whoever has made such a name, room to count on from there has to be left. */
const NEVER = 2 ** 47
/** A watch that shows nothing for longer may be broken, or there is nothing: the list tells. */
const SURE_MS = 15_000

export type SegmentNamerOptions = {
  clock: Clock
  random: Random
  /** The first of a list of the sequence by name; undefined where there is none. @throws ApiError */
  first: () => Promise<string | undefined>
}

/**
 * Names of the segments of one sequence. A list by name has to begin with what was written last, also where the clock of a writer is
 * ahead: so each name is newer than all that its writer has made or seen, and its time is that of the clock only where that is later.
 */
export class SegmentNamer {
  readonly #options: SegmentNamerOptions
  /** By names, milliseconds since 1970. */
  #newest = 0
  #sawAt = Number.NEGATIVE_INFINITY

  constructor(options: SegmentNamerOptions) {
    this.#options = options
  }

  /** Newer than all that were there some seconds ago. @throws ApiError where nobody tells what there is */
  async next(): Promise<string> {
    const { clock, random, first } = this.#options
    if (clock.monotonic() - this.#sawAt > SURE_MS) {
      const asked = clock.monotonic()
      this.observe((await first()) ?? '')
      this.#sawAt = asked
    }
    this.#newest = Math.max(Math.floor(clock.now()), this.#newest + 1)
    return sortableName(this.#newest, random.bytes(NAME_ENTROPY_BYTES))
  }

  /** Of one that the watch shows, whoever has made it. A name that Davit did not make tells no time. */
  observe(name: string): void {
    this.#sawAt = this.#options.clock.monotonic()
    const time = timeOfName(name)
    if (time < NEVER) this.#newest = Math.max(this.#newest, time)
  }
}

/** @returns the `first` of `SegmentNamesOptions`, for one of the two kinds of segments */
export function firstNameReader(
  resources: ResourceReader,
  type: ResourceType,
  namespace: string,
): () => Promise<string | undefined> {
  return async () => (await resources.list(type, { namespace, limit: 1 })).items[0]?.metadata.name
}
