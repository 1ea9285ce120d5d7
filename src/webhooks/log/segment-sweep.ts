/** Which segments of the log are deleted next: a plan over all of it now and then, and taken from one by one. */

import { outcomeSegments } from '../../apis/api-outcome-segment.ts'
import { deliverySegments } from '../../apis/delivery-segment.ts'
import type { ResourceType } from '../../apis/meta.ts'
import type { Finished } from './finished-deliveries.ts'
import { LogSequence, type OutcomesEntry, type SegmentEntry } from './log-index.ts'
import type { PayloadRefs } from './payload-refs.ts'
import { outcomesToDelete, type RetentionLimits, segmentsToDelete } from './retention-plan.ts'
import type { ScannedLog } from './scan-log.ts'

export type LogSweepOptions = {
  limits: RetentionLimits
  lowWater: () => number
  refs: PayloadRefs
  /** Its segment takes too much space, so the delivery goes first. */
  evict: (finished: Finished) => void
}

/** A segment that is to be deleted. `keysUntil`: before that its Idempotency-Keys have to be kept elsewhere. */
export type GoingSegment = {
  type: ResourceType
  name: string
  keysUntil?: number | undefined
  deleted: () => void
  failed: () => void
}

/** A segment that would go if what refers to it were gone. `evict`: its space is needed, so finished deliveries go first. */
export type DoubtfulSegment = { name: string; version: number; evict: boolean }

/** Segments that a plan takes at most: what is left over is decided on what is there by then. */
const PLANNED = 500
/** Payloads are large: a few segments make room. */
const RELEASED = 50

/** Short lines of Idempotency-Keys from there on stay where they are: to write them anew would win no room. */
const KEY_STORE_BYTES = 16 * 1024

export class LogSweep {
  readonly #options: LogSweepOptions
  #segments = new LogSequence<SegmentEntry>()
  #outcomes = new LogSequence<OutcomesEntry>()
  #going: GoingSegment[] = []
  #complete = false
  #syncedVersion = () => 0
  #more = false
  #doubtful: DoubtfulSegment[] = []

  constructor(options: LogSweepOptions) {
    this.#options = options
  }

  segmentSeen(entry: SegmentEntry): void {
    this.#segments.add(entry)
  }

  outcomesSeen(entry: OutcomesEntry): void {
    this.#outcomes.add(entry)
  }

  /** Nothing is known of the log any more, and nothing is deleted. */
  reset(): void {
    this.#segments = new LogSequence<SegmentEntry>()
    this.#outcomes = new LogSequence<OutcomesEntry>()
    this.#doubtful = []
    this.#complete = false
    this.#giveUp()
  }

  /** Those of the last plan, once. */
  takeDoubtful(): DoubtfulSegment[] {
    return this.#doubtful.splice(0)
  }

  /**
   * The whole log is known: until then nothing is deleted, since outcomes may speak of a segment not known yet.
   * @param syncedVersion every segment of events up to this version is told of by `segmentSeen`
   */
  scanned(found: ScannedLog, syncedVersion: () => number): void {
    this.#segments.merge(found.segments)
    this.#outcomes.merge(found.outcomes)
    this.#syncedVersion = syncedVersion
    this.#complete = true
  }

  /**
   * Decides what goes. Outcomes first and alone, so that segments are decided on with the space that is really
   * taken. @param now milliseconds since 1970
   */
  plan(now: number): void {
    if (!this.#complete) return
    const { refs } = this.#options
    const log = {
      segments: this.#segments.values(),
      outcomes: this.#outcomes.values(),
      lowWater: this.#options.lowWater(),
      syncedVersion: this.#syncedVersion(),
      holders: (segment: SegmentEntry) =>
        isKeyStore(segment, now) ? 'unfinished' : refs.holders(segment.name),
    }
    const outcomes = outcomesToDelete(log, now)
    if (outcomes.length > 0) {
      this.#take(outcomes, outcomeSegments, this.#outcomes)
      this.#more = true
      return
    }
    const segments = segmentsToDelete(log, this.#options.limits, now)
    // What is being deleted, or could not be, holds up no other.
    const releases = segments.release
      .map(({ name }) => refs.finishedOf(name).filter(({ taken }) => !taken))
      .filter((finished) => finished.length > 0)
    for (const finished of releases.slice(0, RELEASED).flat()) this.#options.evict(finished)
    this.#take(segments.delete, deliverySegments, this.#segments)
    const { expired, surplus } = segments.doubtful
    const wanted = new Set(surplus)
    const doubtful = [...surplus, ...expired.filter((segment) => !wanted.has(segment))]
    this.#doubtful = doubtful.map((segment) => {
      return { name: segment.name, version: segment.version, evict: wanted.has(segment) }
    })
  }

  /** The last plan left something over. */
  get hasMore(): boolean {
    return this.#more
  }

  /** Plans again when all of a plan is done that left something over. @param now milliseconds since 1970 */
  refill(now: number): void {
    if (this.#going.length === 0 && this.#more) this.plan(now)
  }

  next(): GoingSegment | undefined {
    return this.#going.shift()
  }

  /** @param now milliseconds since 1970 */
  stats(now: number) {
    const oldest = this.#segments.oldest()
    return {
      logBytes: this.#segments.bytes + this.#outcomes.bytes,
      logSegments: this.#segments.size,
      outcomeSegments: this.#outcomes.size,
      oldestSegmentAgeMs: oldest ? Math.max(0, now - oldest.createdAt) : 0,
    }
  }

  #take<T extends SegmentEntry | OutcomesEntry>(
    entries: readonly T[],
    type: ResourceType,
    sequence: LogSequence<T>,
  ): void {
    this.#more = entries.length > PLANNED
    this.#going = entries.slice(0, PLANNED).map((entry) => ({
      type,
      name: entry.name,
      keysUntil: 'keysUntil' in entry ? entry.keysUntil : undefined,
      deleted: () => sequence.remove(entry),
      failed: () => this.#giveUp(),
    }))
  }

  /** Until the next plan: what failed once will most likely fail for all. */
  #giveUp(): void {
    this.#going = []
    this.#more = false
  }
}

function isKeyStore({ keysUntil = 0, keysOnly = false, bytes }: SegmentEntry, now: number): boolean {
  return keysOnly && keysUntil > now && bytes >= KEY_STORE_BYTES
}
