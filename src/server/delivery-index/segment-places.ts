/** Which line stands for which place in the log, segment by segment. */
import type { Position } from '../../apis/position.ts'
import { copyString } from '../../lib/own-text.ts'
import { NONE } from './line-table.ts'

export type IndexedSegment = {
  readonly number: number
  readonly name: string
  readonly version: number
  /** Lines by index: NONE where there is none (any more), UNKNOWN before it was seen. */
  lines: number[] | Uint32Array
  /** The segment itself was seen, not only what this process appended to it. */
  complete: boolean
}

export const UNKNOWN = NONE - 1

/** From so many on numbers are kept without what an array costs for each. */
const MANY = 16

export class IndexedSegments {
  readonly #byName = new Map<string, IndexedSegment>()
  readonly #byVersion = new Map<number, IndexedSegment>()
  readonly #byNumber: (IndexedSegment | undefined)[] = []
  readonly #free: number[] = []

  get size(): number {
    return this.#byName.size
  }

  names(): IterableIterator<string> {
    return this.#byName.keys()
  }

  find(name: string): IndexedSegment | undefined {
    return this.#byName.get(name)
  }

  at(number: number): IndexedSegment | undefined {
    return this.#byNumber[number]
  }

  /** Line of a place in the log; NONE where there is none. */
  lineAt({ version, index }: Position): number {
    const line = this.#byVersion.get(version)?.lines[index]
    return line === undefined || line === UNKNOWN ? NONE : line
  }

  /** @param count how many places it has at least */
  findOrAdd(name: string, version: number, count: number): IndexedSegment {
    const held = this.#byName.get(name)
    if (held) {
      if (held.lines.length < count) held.lines = placesOf(count, held.lines)
      return held
    }
    const segment: IndexedSegment = {
      number: this.#free.pop() ?? this.#byNumber.length,
      name: copyString(name),
      version,
      lines: placesOf(count, []),
      complete: false,
    }
    this.#byNumber[segment.number] = segment
    this.#byName.set(segment.name, segment)
    this.#byVersion.set(version, segment)
    return segment
  }

  remove(segment: IndexedSegment): void {
    this.#byNumber[segment.number] = undefined
    this.#free.push(segment.number)
    this.#byName.delete(segment.name)
    this.#byVersion.delete(segment.version)
  }
}

function placesOf(count: number, held: ArrayLike<number>): number[] | Uint32Array {
  const places: number[] | Uint32Array =
    count < MANY ? new Array<number>(count).fill(UNKNOWN) : new Uint32Array(count).fill(UNKNOWN)
  for (let index = 0; index < held.length; index += 1) places[index] = held[index] ?? UNKNOWN
  return places
}
