import type { Position } from '../../apis/delivery-segment.ts'
import type { BeginRecord } from '../../apis/outcome-segment.ts'

/**
 * A delivery may end the process that sends it. The log tells which: claims count ends in a row, and an owner that follows several of them
 * is careful, so that it records each attempt before it makes it. README.md of the delivery engine explains the rest.
 */

/** From so many ends in a row on, an owner is careful. */
export const CAREFUL_FROM_ENDS = 3
/** A claim follows an end if the one before it was made less than this ago. */
export const SERIES_MS = 10 * 60_000
/** An owner that has lived for so long ends the series. */
export const CALM_AFTER_MS = 60_000
/** Attempts of a careful owner at a time. */
export const MAX_BEGUN = 256

/** What is known of the claim before. `at`: milliseconds since 1970. */
export type EarlierClaim = { writer: string; isReleased: boolean; ends: number; at: number }

/** How many owners in a row have ended without a release, for the claim that a writer makes now. A lapse of its own does not count. */
export function endsAfter(before: EarlierClaim | undefined, writer: string, now: number): number {
  if (!before || before.isReleased) return 0
  if (before.writer === writer) return before.ends
  return now - before.at < SERIES_MS ? before.ends + 1 : 1
}

/** Who recorded the attempt, and in which version of the log. */
export type Begun = Pick<BeginRecord, 'attempts' | 'isAlone'> & {
  position: Position
  version: number
  writer: string
  /** When it was recorded, milliseconds since 1970. */
  at: number
}

/** @property isLikelyCause no other attempt that its writer began alone after it is without an outcome */
export type FoundBegun = Begun & { isLikelyCause: boolean }

/** Few exist: only careful owners record them. The oldest go first. */
const MAX_KEPT = 10_000

/** Attempts that careful owners have recorded, and whose outcome is not known. */
export class BegunAttempts {
  readonly #byPosition = new Map<string, Begun>()
  /**
   * Those that were begun alone, by writer and in order. When a writer ended, one before the last of its own had not ended it although it
   * had the time. Other writers tell nothing about that.
   */
  readonly #alone = new Map<string, Set<string>>()

  /** Call in log order. */
  add(begun: Begun): void {
    const key = keyOf(begun.position)
    this.#delete(key)
    this.#byPosition.set(key, begun)
    if (begun.isAlone) {
      const alone = this.#alone.get(begun.writer) ?? new Set<string>()
      this.#alone.set(begun.writer, alone.add(key))
    }
    const [oldest] = this.#byPosition.keys()
    if (oldest !== undefined && this.#byPosition.size > MAX_KEPT) this.#delete(oldest)
  }

  /** @param attempts whose outcome is known: one that was begun before the last of them has its outcome */
  at(position: Position, attempts: number): FoundBegun | undefined {
    const key = keyOf(position)
    const begun = this.#byPosition.get(key)
    if (!begun || begun.attempts < attempts) return undefined
    return { ...begun, isLikelyCause: begun.isAlone && this.#lastAloneOf(begun.writer) === key }
  }

  /** Those that were begun alone, oldest first for each writer. */
  *alone(): IterableIterator<Begun> {
    for (const keys of this.#alone.values())
      for (const key of keys) {
        const begun = this.#byPosition.get(key)
        if (begun) yield begun
      }
  }

  /** Its outcome is known. */
  delete(position: Position): void {
    if (this.#byPosition.size > 0) this.#delete(keyOf(position))
  }

  /** For a delivery with an object, whose outcomes are not in the log. @param attempts whose outcome is known */
  deleteKnown(position: Position, attempts: number): void {
    if (this.#byPosition.size === 0) return
    const key = keyOf(position)
    const begun = this.#byPosition.get(key)
    if (begun && begun.attempts < attempts) this.#delete(key)
  }

  get size(): number {
    return this.#byPosition.size
  }

  #lastAloneOf(writer: string): string | undefined {
    return [...(this.#alone.get(writer) ?? [])].at(-1)
  }

  #delete(key: string): void {
    const { writer = '' } = this.#byPosition.get(key) ?? {}
    const alone = this.#alone.get(writer)
    if (alone?.delete(key) && alone.size === 0) this.#alone.delete(writer)
    this.#byPosition.delete(key)
  }
}

function keyOf({ version, index }: Position): string {
  return `${version}/${index}`
}
