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

/** Few exist: only careful owners record them. The oldest go first. */
const MAX_KEPT = 10_000

/** Attempts that careful owners have recorded, and whose outcome is not known. */
export class BegunAttempts {
  readonly #byPosition = new Map<string, Begun>()
  /** The last attempt that was begun alone: one before it may still be in progress, but has not ended its owner by then. */
  #lastAlone: string | undefined

  /** Call in log order. */
  add(begun: Begun): void {
    const key = keyOf(begun.position)
    if (begun.isAlone) this.#lastAlone = key
    this.#byPosition.delete(key)
    this.#byPosition.set(key, begun)
    const [oldest] = this.#byPosition.keys()
    if (oldest !== undefined && this.#byPosition.size > MAX_KEPT) this.#byPosition.delete(oldest)
  }

  /** @param attempts whose outcome is known: one that was begun before the last of them has its outcome */
  at(position: Position, attempts: number): Begun | undefined {
    const key = keyOf(position)
    const begun = this.#byPosition.get(key)
    if (!begun || begun.attempts < attempts) return undefined
    return { ...begun, isAlone: begun.isAlone && this.#lastAlone === key }
  }

  /** Its outcome is known. */
  delete(position: Position): void {
    if (this.#byPosition.size > 0) this.#byPosition.delete(keyOf(position))
  }

  get size(): number {
    return this.#byPosition.size
  }
}

function keyOf({ version, index }: Position): string {
  return `${version}/${index}`
}
