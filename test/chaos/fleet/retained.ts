/** What retention has deleted too early, and what it should have. */
import { webhookDelivery } from '../../../src/apis/webhook-delivery.ts'
import { readSegment } from '../../../src/webhooks/log/reader.ts'
import type { Archive, Kept } from './archive.ts'
import type { FaultRecord } from './fault-work.ts'

/** The log stays for so long at least. */
export const LOG_STAYS_MS = 120_000
/** Times of creation are whole seconds. */
const SECOND_MS = 1000
/** A clock that is mended is seen so soon. */
const SEEN_MS = 10_000
/** Steps up to that are taken as they come. */
const SMALL_MS = 60_000

export type Retained = {
  archive: Archive
  /** Endpoints in the cluster that were deleted: what is theirs goes with them. */
  deleted: ReadonlySet<string>
  faults: readonly FaultRecord[]
  /** When each life of a process began. */
  startedAt: ReadonlyMap<number, number>
  retentionMs: number
  /** The bound of the log, where it has one that is reached: what has ended goes sooner then. */
  logBytes?: number
}

const GONE = 'were gone before their time'

/** What went before its time, in words. */
export function goneEarly(given: Retained): string[] {
  const { archive, deleted, retentionMs } = given
  const logStaysMs = Math.max(retentionMs, LOG_STAYS_MS)
  const referredUntil = new Map<string | undefined, number>()
  for (const kept of archive.deliveries) {
    const segment = segmentOf(kept)
    referredUntil.set(segment, Math.max(kept.seenAt, referredUntil.get(segment) ?? 0))
  }
  const referred = {
    'segments that a delivery refers to': archive.segments.filter(
      ({ raw, missedAt = Number.POSITIVE_INFINITY }) =>
        missedAt < (referredUntil.get(raw.metadata.name) ?? 0),
    ),
  }
  if (given.logBytes !== undefined) return wordsOf(referred, GONE)
  const found = {
    ...referred,
    'segments of the log': archive.segments.filter(
      (kept) => isEarly(kept, createdAt(kept) + logStaysMs, given) && isOfEvents(kept),
    ),
    'deliveries that succeeded': archive.deliveries.filter(
      (kept) =>
        stateOf(kept) === 'succeeded' &&
        !deleted.has(endpointOf(kept)) &&
        isEarly(kept, endOf(kept) + retentionMs, given),
    ),
    'deliveries that did not': archive.deliveries.filter(
      (kept) => stateOf(kept) !== 'succeeded' && !isThere(kept) && !deleted.has(endpointOf(kept)),
    ),
  }
  return wordsOf(found, GONE)
}

/** What has ended and is still there, in words. */
export function overdueOf({ segments, deliveries }: Archive): string[] {
  const referred = new Set(deliveries.filter(isThere).map(segmentOf))
  const found = {
    'segments of the log': segments.filter(
      (kept) => isThere(kept) && isOfEvents(kept) && !referred.has(kept.raw.metadata.name),
    ),
    'deliveries that succeeded': deliveries.filter((kept) => isThere(kept) && stateOf(kept) === 'succeeded'),
  }
  return wordsOf(found, 'stay beyond their time')
}

function wordsOf(found: Readonly<Record<string, readonly Kept[]>>, what: string): string[] {
  return Object.entries(found).flatMap(([which, all]) =>
    all.length === 0
      ? []
      : [`${all.length} ${which} ${what}: ${all.slice(0, 5).map(({ raw }) => raw.metadata.name)}`],
  )
}

function isEarly({ missedAt = Number.POSITIVE_INFINITY }: Kept, dueAt: number, given: Retained): boolean {
  const small = stepsOf(given, dueAt - given.retentionMs - SMALL_MS, missedAt)
    .map(({ stepMs = 0 }) => Math.abs(stepMs))
    .filter((ms) => ms <= SMALL_MS)
  return missedAt < dueAt - SECOND_MS - Math.max(0, ...small) && !isMisled(missedAt, given)
}

/** One that starts while its clock is ahead believes it until that is mended. */
function isMisled(at: number, { faults, startedAt }: Retained): boolean {
  return faults.some(
    ({ kind, stepMs = 0, from, to, lives }) =>
      kind === 'clock step' &&
      stepMs > 0 &&
      from <= at &&
      at <= to + SEEN_MS &&
      lives !== 'all' &&
      lives.some((life) => (startedAt.get(life) ?? 0) > from),
  )
}

/** Its last attempt may have ended long before that could be stored; by a clock that is behind even before it was made. */
function endOf(kept: Kept): number {
  const completedAt = Date.parse(webhookDelivery.parse(kept.raw).status?.completedAt ?? '') || Infinity
  return Math.max(createdAt(kept), Math.min(kept.openAt, completedAt - performance.timeOrigin))
}

function stepsOf({ faults }: Retained, from: number, to: number): FaultRecord[] {
  return faults.filter((one) => one.kind === 'clock step' && one.from <= to && one.to + SEEN_MS >= from)
}

function isThere({ missedAt }: Kept): boolean {
  return missedAt === undefined
}

/** Others hold Idempotency-Keys alone. */
function isOfEvents({ raw }: Kept): boolean {
  return readSegment(raw).deliveries.length > 0
}

function stateOf({ raw }: Kept): string | undefined {
  return webhookDelivery.parse(raw).status?.state
}

function endpointOf({ raw }: Kept): string {
  return webhookDelivery.parse(raw).spec.endpoint
}

/** That holds its payload, where the delivery itself does not. */
function segmentOf({ raw }: Kept): string | undefined {
  return webhookDelivery.parse(raw).spec.payloadRef?.segment
}

/** By `performance.now()`. */
function createdAt({ raw }: Kept): number {
  return Date.parse(String(raw.metadata.creationTimestamp)) - performance.timeOrigin
}
