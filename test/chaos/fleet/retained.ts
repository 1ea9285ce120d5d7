/** What retention has deleted too early, and what it should have. */
import { webhookDelivery } from '../../../src/api/webhook-delivery.ts'
import { readSegment } from '../../../src/controllers/delivery-log/read-back.ts'
import type { Archive, Kept } from './archive.ts'
import type { FaultRecord } from './fault-work.ts'

/** Times of creation are whole seconds. */
const SECOND_MS = 1000
/** A process that started while its clock was ahead thinks so until it is told otherwise. */
const BELIEVED_MS = 60_000

/** Segments that hold events, and went before their time, in words. */
export function goneEarly(given: {
  archive: Archive
  faults: readonly FaultRecord[]
  retentionMs: number
}): string[] {
  const { archive, faults, retentionMs } = given
  const clocks = faults.filter(({ kind }) => kind === 'clock step')
  const early = archive.segments.filter((kept) => {
    const { missedAt = Number.POSITIVE_INFINITY } = kept
    const isMisled = clocks.some(({ from, to }) => from <= missedAt && missedAt <= to + BELIEVED_MS)
    return !isMisled && missedAt < createdAt(kept) + retentionMs - SECOND_MS && isOfEvents(kept)
  })
  return early
    .slice(0, 5)
    .map(
      (kept) =>
        `the segment ${kept.raw.metadata.name} was gone after ${Math.round((kept.missedAt ?? 0) - createdAt(kept))} ms`,
    )
}

/** What has ended and is still there, in words. */
export function overdueOf({ segments, deliveries }: Archive): string[] {
  const found = {
    'segments of the log': segments.filter((kept) => isThere(kept) && isOfEvents(kept)),
    'deliveries that succeeded': deliveries.filter((kept) => isThere(kept) && hasSucceeded(kept)),
  }
  return Object.entries(found).flatMap(([what, which]) =>
    which.length === 0
      ? []
      : [
          `${which.length} ${what} stay beyond their time: ${which.slice(0, 5).map(({ raw }) => raw.metadata.name)}`,
        ],
  )
}

function isThere({ missedAt }: Kept): boolean {
  return missedAt === undefined
}

/** Others hold Idempotency-Keys alone. */
function isOfEvents({ raw }: Kept): boolean {
  return readSegment(raw).deliveries.length > 0
}

function hasSucceeded({ raw }: Kept): boolean {
  return webhookDelivery.parse(raw).status?.state === 'succeeded'
}

/** By `performance.now()`. */
function createdAt({ raw }: Kept): number {
  return Date.parse(String(raw.metadata.creationTimestamp)) - performance.timeOrigin
}
