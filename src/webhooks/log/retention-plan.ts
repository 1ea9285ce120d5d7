/**
 * Decides what retention deletes: finished deliveries by age and number, segments of the log by age and bytes. Unfinished deliveries are
 * never deleted, nor segments ahead of the low-water mark. See "Retention" in README.md.
 */

/** Ages in milliseconds. */
export type RetentionLimits = {
  succeededMs: number
  /** For exhausted and canceled deliveries, and for those that wait for a disabled endpoint. */
  failedMs: number
  maxFinishedPerEndpoint: number
  /** Of the objects of finished deliveries, of all organizations. */
  maxFinishedBytes: number
  maxLogBytes: number
}

/** Finished deliveries with an object, of one endpoint or of all. Times in milliseconds since 1970. */
export type FinishedCount = {
  size: number
  /** The earliest end of a succeeded one; absent if there is none. */
  oldestSucceeded?: number | undefined
  /** The same for those exhausted or canceled. */
  oldestOther?: number | undefined
}

/** Whether a finished delivery has been kept for its time. Times in milliseconds since 1970. */
export function hasExpired(
  { succeeded, completedAt }: { succeeded: boolean; completedAt: number },
  { succeededMs, failedMs }: Pick<RetentionLimits, 'succeededMs' | 'failedMs'>,
  now: number,
): boolean {
  return now - completedAt > (succeeded ? succeededMs : failedMs)
}

/** Which of the two oldest deliveries is deleted next; undefined if none. */
export function nextToDelete(
  count: FinishedCount,
  max: number,
  limits: RetentionLimits,
  now: number,
): 'succeeded' | 'other' | undefined {
  const { size, oldestSucceeded, oldestOther } = count
  const mayGo = (completedAt: number | undefined, succeeded: boolean) =>
    completedAt !== undefined && (size > max || hasExpired({ succeeded, completedAt }, limits, now))
  if (mayGo(oldestSucceeded, true)) return 'succeeded'
  return mayGo(oldestOther, false) ? 'other' : undefined
}

/** Whether a delivery has waited too long for a disabled endpoint. Milliseconds since 1970. */
export function heldTooLong(
  held: { disabledAt: number; acceptedAt: number },
  limits: Pick<RetentionLimits, 'failedMs'>,
  now: number,
): boolean {
  return now - Math.max(held.disabledAt, held.acceptedAt) > limits.failedMs
}

/** A part of the log. */
export type LogSize = { bytes: number; deliveries: number }

/** What an entry whose object is rejected may hold up. */
export type RejectionLimits = LogSize & { ageMs: number }

/** So long it may wait however much comes after it: what is written in ten minutes has a limit of its own. */
const ALWAYS_KEPT_MS = 10 * 60_000

/**
 * Whether an entry whose object is rejected (quota, policy) has waited too long in the log: nothing after it can be deleted meanwhile, of
 * whatever organization, and every start of a replica reads that. Times in milliseconds since 1970.
 * @param after its segment in the log
 */
export function rejectedTooLong(
  waits: { rejectedSince: number; acceptedAt: number },
  after: LogSize,
  limits: RejectionLimits,
  now: number,
): boolean {
  if (now - waits.rejectedSince <= ALWAYS_KEPT_MS) return false
  const isFar = after.bytes > limits.bytes || after.deliveries > limits.deliveries
  return isFar || now - waits.acceptedAt > limits.ageMs
}

/** A segment of accepted events. `organization` is empty if it holds events of several. */
export type SegmentSummary = {
  readonly version: number
  readonly createdAt: number
  readonly bytes: number
  readonly organization: string
}

/** A segment of outcomes. Its records are about segments between its `lowWater` and its own version. */
export type OutcomesSummary = {
  readonly version: number
  readonly createdAt: number
  readonly bytes: number
  readonly lowWater: number
  /** It has claims or releases of shards. */
  readonly hasClaims?: boolean
}

/** Which delivery objects refer to a body in a segment: none, only succeeded, only finished, or others too. */
export type Holders = 'none' | 'succeeded' | 'finished' | 'unfinished'

/** The whole log, oldest first. */
export type LogState<S extends SegmentSummary, O extends OutcomesSummary> = {
  segments: readonly S[]
  outcomes: readonly O[]
  /** Every delivery up to this version is closed. */
  lowWater: number
  /** Every segment up to this version is known. */
  syncedVersion: number
  holders: (segment: S) => Holders
}

/** Younger segments stay for readers that are behind or start over. */
export const MIN_AGE_MS = 2 * 60_000

/**
 * Segments to `delete` now (expired, or surplus), surplus segments to `release` by deleting the finished objects that refer to them, and
 * `unverified` ones, referred to by objects that are not known to be finished.
 */
export function segmentsToDelete<S extends SegmentSummary>(
  log: LogState<S, OutcomesSummary>,
  limits: RetentionLimits,
  now: number,
): { delete: S[]; release: S[]; unverified: { expired: S[]; surplus: S[] } } {
  const closed = log.segments.filter((segment) => segment.version <= log.lowWater && isSettled(segment, now))
  const isOld = (segment: S) => now - segment.createdAt > limits.succeededMs
  const expired = new Set(closed.filter((segment) => isOld(segment) && log.holders(segment) === 'none'))
  const remaining = log.segments.filter((segment) => !expired.has(segment))
  const surplus = new Surplus(remaining, limits.maxLogBytes - bytesOf(log.outcomes))
  const take = (wanted: Holders) =>
    surplus.take(closed, (segment) => !expired.has(segment) && log.holders(segment) === wanted)
  return {
    delete: [...expired, ...take('none')],
    release: [...take('succeeded'), ...take('finished')],
    unverified: {
      expired: closed.filter((segment) => isOld(segment) && log.holders(segment) === 'unfinished'),
      surplus: take('unfinished'),
    },
  }
}

/** The bytes that organizations hold beyond their fair share of `capacity`. */
class Surplus {
  readonly #held = new Map<string, number>()
  readonly #share: number
  #over = 0

  constructor(segments: readonly SegmentSummary[], capacity: number) {
    for (const { organization, bytes } of segments) {
      this.#held.set(organization, (this.#held.get(organization) ?? 0) + bytes)
    }
    this.#share = fairShare([...this.#held.values()], capacity)
    for (const held of this.#held.values()) if (held > this.#share) this.#over += 1
  }

  /** Eligible segments in the given order, until no organization has a surplus. */
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
 * Outcome segments whose deliveries are all deleted. A delivery without its record would be sent again, so deliveries go first, and no
 * segment goes that may be about deliveries not read yet. The newest stays: it holds the low-water mark for the next start. Of those with
 * claims only the oldest may go: a reader of the log that finds a claim finds all later ones as well, and so knows who owned the shard.
 */
export function outcomesToDelete<O extends OutcomesSummary>(
  log: Pick<LogState<SegmentSummary, O>, 'segments' | 'outcomes' | 'syncedVersion'>,
  now: number,
): O[] {
  const deletable: O[] = []
  let next = 0
  let isBehindClaims = false
  for (const outcomes of log.outcomes.slice(0, -1)) {
    if (outcomes.version > log.syncedVersion) break
    while ((log.segments[next]?.version ?? Number.POSITIVE_INFINITY) < outcomes.version) next += 1
    const newestBefore = log.segments[next - 1]?.version ?? 0
    const mayGo = !(outcomes.hasClaims && isBehindClaims)
    isBehindClaims ||= outcomes.hasClaims === true
    if (mayGo && newestBefore <= outcomes.lowWater && isSettled(outcomes, now)) deletable.push(outcomes)
  }
  return deletable
}

/** A time in the future is from another clock, and says nothing about the age. */
function isSettled({ createdAt }: { createdAt: number }, now: number): boolean {
  return Math.abs(now - createdAt) >= MIN_AGE_MS
}

function bytesOf(summaries: readonly { bytes: number }[]): number {
  return summaries.reduce((sum, { bytes }) => sum + bytes, 0)
}

/** Max-min fair share in bytes: small needs leave the rest to others. Infinity if everything fits into `capacity`. */
function fairShare(needs: readonly number[], capacity: number): number {
  let left = Math.max(0, capacity)
  const ascending = needs.toSorted((a, b) => a - b)
  for (const [index, need] of ascending.entries()) {
    const share = left / (ascending.length - index)
    if (need > share) return share
    left -= need
  }
  return Number.POSITIVE_INFINITY
}
