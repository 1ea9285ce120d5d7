import type { OutcomeRecord } from '../../apis/outcome-segment.ts'

/** A record, with the version of the segment that it is in, and who wrote that. */
export type SequencedRecord = { record: OutcomeRecord; version: number; writer: string }

/** Segments that were closed before they were shown, or cannot be read, are looked for from this many on. */
const TIDY_FROM = 1000
/** A watch that is cut off for minutes at full load. */
const MAX_RECORDS = 200_000

const NONE: ReadonlyMap<number, SequencedRecord[]> = new Map()

/** Records of entries whose segment was not shown yet, by its version. */
export class OutOfOrderRecords {
  readonly #byVersion = new Map<number, SequencedRecord[]>()
  #size = 0

  /** More wait than can be held. */
  get isFull(): boolean {
    return this.#size > MAX_RECORDS
  }

  add(said: SequencedRecord): void {
    this.#size += 1
    const { version } = said.record.position
    const held = this.#byVersion.get(version)
    if (held) held.push(said)
    else this.#byVersion.set(version, [said])
  }

  /** The records of a segment that is shown now, by index, in order. */
  take(version: number): ReadonlyMap<number, SequencedRecord[]> {
    const records = this.#byVersion.get(version)
    if (!records) return NONE
    this.#drop(version)
    return Map.groupBy(records, ({ record }) => record.position.index)
  }

  /** Nothing up to this version is open. */
  forget(lowWater: number): void {
    if (this.#byVersion.size < TIDY_FROM) return
    for (const version of this.#byVersion.keys()) if (version <= lowWater) this.#drop(version)
  }

  #drop(version: number): void {
    this.#size -= this.#byVersion.get(version)?.length ?? 0
    this.#byVersion.delete(version)
  }
}
