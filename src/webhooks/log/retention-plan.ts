/**
 * What is deleted to keep the space bounded: finished deliveries by age and number, segments of the log by age
 * and bytes. What has not finished is never deleted, and the log never ahead of its low-water mark.
 */

/** Ages in milliseconds; numbers of delivery objects; bytes of the whole log. */
export type RetentionLimits = {
  succeededMs: number
  /** For exhausted and canceled deliveries, and for what is held by a disabled endpoint. */
  failedMs: number
  maxFinishedPerEndpoint: number
  maxFinished: number
  maxLogBytes: number
}

/** Finished deliveries that have an object, of one endpoint or of all. Times in milliseconds since 1970. */
export type FinishedCount = {
  size: number
  /** When the succeeded one that ended first ended; absent where none succeeded. */
  oldestSucceeded?: number | undefined
  /** The same of those exhausted or canceled. */
  oldestOther?: number | undefined
}

/** Of which finished deliveries the oldest is deleted next; undefined when all may stay. */
export function nextToDelete(
  count: FinishedCount,
  max: number,
  limits: RetentionLimits,
  now: number,
): 'succeeded' | 'other' | undefined {
  const { size, oldestSucceeded, oldestOther } = count
  if (oldestSucceeded !== undefined && (size > max || now - oldestSucceeded > limits.succeededMs)) {
    return 'succeeded'
  }
  if (oldestOther !== undefined && (size > max || now - oldestOther > limits.failedMs)) return 'other'
  return undefined
}

/** A delivery waits for its endpoint since both were there: the delivery, and the disabling. Milliseconds since 1970. */
export function heldTooLong(
  held: { disabledAt: number; acceptedAt: number },
  limits: Pick<RetentionLimits, 'failedMs'>,
  now: number,
): boolean {
  return now - Math.max(held.disabledAt, held.acceptedAt) > limits.failedMs
}

/** A segment of accepted events. `organization` is empty where it holds events of several. */
export type SegmentSummary = {
  readonly version: number
  readonly createdAt: number
  readonly bytes: number
  readonly organization: string
}

/** A segment of outcomes. It speaks only of segments behind its own version and ahead of its `lowWater`. */
export type OutcomesSummary = {
  readonly version: number
  readonly createdAt: number
  readonly bytes: number
  readonly lowWater: number
}

/** The delivery objects that refer to a payload in a segment: none, only succeeded, only finished ones, or others too. */
export type Holders = 'none' | 'succeeded' | 'finished' | 'unfinished'

/** The whole log, oldest first. */
export type LogState<S extends SegmentSummary, O extends OutcomesSummary> = {
  segments: readonly S[]
  outcomes: readonly O[]
  /** Every delivery up to this version is closed. */
  lowWater: number
  /** Every segment up to this version is among these. */
  syncedVersion: number
  holders: (segment: S) => Holders
}

/** Readers of the log that are behind, or start again, still find what is younger. */
export const MIN_AGE_MS = 2 * 60_000

/**
 * Segments that can be deleted now, and those that could be if the finished objects that refer to them were:
 * by age the former only, for want of space both. `doubtful` would go as well, but something refers to them that is not
 * known to have finished.
 */
export function segmentsToDelete<S extends SegmentSummary>(
  log: LogState<S, OutcomesSummary>,
  limits: RetentionLimits,
  now: number,
): { delete: S[]; release: S[]; doubtful: { expired: S[]; surplus: S[] } } {
  const closed = log.segments.filter((segment) => segment.version <= log.lowWater && isSettled(segment, now))
  const isOld = (segment: S) => now - segment.createdAt > limits.succeededMs
  const expired = new Set(closed.filter((segment) => isOld(segment) && log.holders(segment) === 'none'))
  const left = log.segments.filter((segment) => !expired.has(segment))
  const surplus = new Surplus(left, limits.maxLogBytes - bytesOf(log.outcomes))
  const take = (wanted: Holders) =>
    surplus.take(closed, (segment) => !expired.has(segment) && log.holders(segment) === wanted)
  return {
    delete: [...expired, ...take('none')],
    release: [...take('succeeded'), ...take('finished')],
    doubtful: {
      expired: closed.filter((segment) => isOld(segment) && log.holders(segment) === 'unfinished'),
      surplus: take('unfinished'),
    },
  }
}

/** What organizations hold beyond their fair share of `room`, in bytes. */
class Surplus {
  readonly #held = new Map<string, number>()
  readonly #share: number
  /** Organizations beyond their share. */
  #over = 0

  constructor(segments: readonly SegmentSummary[], room: number) {
    for (const { organization, bytes } of segments) {
      this.#held.set(organization, (this.#held.get(organization) ?? 0) + bytes)
    }
    this.#share = fairShare([...this.#held.values()], room)
    for (const held of this.#held.values()) if (held > this.#share) this.#over += 1
  }

  /** Takes off in the order given what is eligible, as far as there is surplus. */
  take<S extends SegmentSummary>(segments: readonly S[], isEligible: (segment: S) => boolean): S[] {
    const taken: S[] = []
    for (const segment of segments) {
      if (this.#over === 0) break
      const held = this.#held.get(segment.organization) ?? 0
      if (held <= this.#share || !isEligible(segment)) continue
      taken.push(segment)
      this.#held.set(segment.organization, held - segment.bytes)
      if (held - segment.bytes <= this.#share) this.#over -= 1
    }
    return taken
  }
}

/**
 * Segments of outcomes that speak of nothing that is left. A delivery in a segment without its record would be
 * sent again, so these go only after those, and none that may speak of a segment that was not shown yet. The newest stays: it
 * holds the low-water mark for the next start.
 */
export function outcomesToDelete<O extends OutcomesSummary>(
  log: Pick<LogState<SegmentSummary, O>, 'segments' | 'outcomes' | 'syncedVersion'>,
  now: number,
): O[] {
  const going: O[] = []
  let next = 0
  for (const outcomes of log.outcomes.slice(0, -1)) {
    if (outcomes.version > log.syncedVersion) break
    while ((log.segments[next]?.version ?? Number.POSITIVE_INFINITY) < outcomes.version) next += 1
    const newestBefore = log.segments[next - 1]?.version ?? 0
    if (newestBefore <= outcomes.lowWater && isSettled(outcomes, now)) going.push(outcomes)
  }
  return going
}

/** One that seems to come from the future was written by another clock: its age says nothing. */
function isSettled({ createdAt }: { createdAt: number }, now: number): boolean {
  return Math.abs(now - createdAt) >= MIN_AGE_MS
}

function bytesOf(summaries: readonly { bytes: number }[]): number {
  return summaries.reduce((sum, { bytes }) => sum + bytes, 0)
}

/**
 * The bytes that each may keep so that all fit into `room`: who needs less than an equal part leaves the rest to
 * the others. Infinity when everything fits.
 */
function fairShare(needs: readonly number[], room: number): number {
  let left = Math.max(0, room)
  const ascending = needs.toSorted((a, b) => a - b)
  for (const [index, need] of ascending.entries()) {
    const share = left / (ascending.length - index)
    if (need > share) return share
    left -= need
  }
  return Number.POSITIVE_INFINITY
}
