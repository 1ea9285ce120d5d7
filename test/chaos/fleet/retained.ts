/** Finds objects that retention has deleted too early or too late. */
import { VIEW_LABEL } from '../../../src/apis/meta.ts'
import { webhookDelivery } from '../../../src/apis/webhook-delivery.ts'
import { readSegment } from '../../../src/webhooks/log/reader.ts'
import type { Archive, Kept } from './archive.ts'
import type { FaultRecord } from './fault-work.ts'

/** Minimum time that the log is kept. */
export const LOG_STAYS_MS = 120_000
/** Creation times have a resolution of seconds. */
const SECOND_MS = 1000
/** A corrected clock is noticed within this time. */
const SEEN_MS = 10_000
/** Clock steps up to this size are accepted directly. */
const SMALL_MS = 60_000

export type Retained = {
  archive: Archive
  /** Deleted endpoints in the cluster: their objects are deleted with them. */
  deleted: ReadonlySet<string>
  faults: readonly FaultRecord[]
  /** When each life of a process began. */
  startedAt: ReadonlyMap<number, number>
  retentionMs: number
  /** The limit of the log, if it is reached: then ended objects are deleted sooner. */
  logBytes?: number
}

const GONE = 'were gone before their time'

/** Describes objects that were deleted too early. */
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

/** Describes ended objects that still exist. */
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

/** A process that starts while its clock is ahead trusts it until it is corrected. */
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

/**
 * The last attempt may have ended long before that could be stored; by a slow clock even before it was created. A view is made after
 * the end, and goes at once if the process that made it died before it had a status.
 */
function endOf(kept: Kept): number {
  const { metadata, status, isUnwritten } = webhookDelivery.parse(kept.raw)
  if (isUnwritten) return Number.NEGATIVE_INFINITY
  const completedAt = Date.parse(status?.completedAt ?? '') || Infinity
  const endedAt = Math.min(kept.openAt, completedAt - performance.timeOrigin)
  return metadata.labels?.[VIEW_LABEL] === 'true' ? endedAt : Math.max(createdAt(kept), endedAt)
}

function stepsOf({ faults }: Retained, from: number, to: number): FaultRecord[] {
  return faults.filter((one) => one.kind === 'clock step' && one.from <= to && one.to + SEEN_MS >= from)
}

function isThere({ missedAt }: Kept): boolean {
  return missedAt === undefined
}

/** Other segments contain only idempotency keys. */
function isOfEvents({ raw }: Kept): boolean {
  return readSegment(raw).deliveries.length > 0
}

function stateOf({ raw }: Kept): string | undefined {
  return webhookDelivery.parse(raw).status?.state
}

function endpointOf({ raw }: Kept): string {
  return webhookDelivery.parse(raw).spec.endpoint
}

/** The segment with its payload, if the delivery itself does not have it. */
function segmentOf({ raw }: Kept): string | undefined {
  return webhookDelivery.parse(raw).spec.payloadRef?.segment
}

/** By `performance.now()`. */
function createdAt({ raw }: Kept): number {
  return Date.parse(String(raw.metadata.creationTimestamp)) - performance.timeOrigin
}
