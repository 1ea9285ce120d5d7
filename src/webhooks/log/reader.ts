import { LRUCache } from 'lru-cache'
import {
  type DeliverySegment,
  decodeEventLine,
  deliverySegmentKind,
  readDeliverySegment,
} from '../../apis/delivery-segment.ts'
import { storedBytes } from '../../apis/log-format.ts'
import { decodeLogRecords, readOutcomeSegment } from '../../apis/outcome-segment.ts'
import type { PayloadRef } from '../../apis/webhook-delivery.ts'
import { UnreadableError } from '../../kube/client.ts'
import type { Logger } from '../../lib/log.ts'
import { decodeDeliveries } from './codec.ts'
import type { LogStore, StoredSegment } from './log-store.ts'
import { stopAtLowWater } from './read-back.ts'
import { MIN_AGE_MS } from './retention-plan.ts'
import type { CountedSegment, LoggedOutcomes, LogSegment } from './store.ts'
import { writtenBy } from './written-bytes.ts'

/** Reading the log: segments, records, large bodies, and how far this process has read. */

/** Segments per page of a list: few, since they may be large. Where they are small, a page may grow. */
export const LOG_PAGE = 50
export const LARGEST_LOG_PAGE = 1000

/** Of a segment without its text, as JSON. */
export const SEGMENT_OVERHEAD_BYTES = 800

/** A younger segment was there when the first list was read: segments stay for two minutes, and lists go back by one. */
const STILL_LISTED_MS = 30_000

/** The part of the outcome sequence that this process has read without a gap. */
export class OutcomeReadProgress {
  readonly #startedAt: number
  #from = 0
  #version = 0
  #isListed = false

  /** @param startedAt milliseconds since 1970 */
  constructor(startedAt: number) {
    this.#startedAt = startedAt
  }

  /** Every segment up to this version was read, if it still existed. */
  get version(): number {
    return this.#version
  }

  /** Before this version, segments may have been deleted before they were read. */
  get from(): number {
    return this.#from
  }

  /**
   * The first list has ended: what follows is from the watch, which has no gaps. So a local clock ahead of the API server's, to which
   * everything looks old, costs no more than what was listed.
   */
  listComplete(): void {
    this.#isListed = true
  }

  /** Call in log order. @param createdAt by the API server, milliseconds since 1970; absent: now */
  advance({ version, createdAt = this.#startedAt }: { version: number; createdAt?: number }): void {
    if (!this.#isListed) {
      if (this.#version === 0 && createdAt < this.#startedAt) this.#from = version - 1
      if (createdAt < this.#startedAt - STILL_LISTED_MS) this.#from = version
    }
    this.#version = Math.max(this.#version, version)
  }
}

/** Characters of segments that one reader has unpacked and the other one has not taken yet. Those that share a watch are in step. */
const MAX_UNPACKED_CHARACTERS = 2 * 1024 * 1024

const unpackedByOther = new LRUCache<StoredSegment, DeliverySegment>({
  maxSize: MAX_UNPACKED_CHARACTERS,
  sizeCalculation: ({ spec: { events, deliveries } }) =>
    events.reduce((sum, line) => sum + line.length, SEGMENT_OVERHEAD_BYTES + deliveries.length),
})

/**
 * For two readers of one process that share a watch, and so get the same objects: the first one unpacks and checks a segment, the second
 * one takes what that has found. It must not be changed.
 * @param bytes known if it came by a watch; a list has objects of its own @throws ZodError if it is no segment
 */
export function readSharedSegment(raw: StoredSegment, bytes: number | undefined): DeliverySegment {
  if (bytes === undefined) return readDeliverySegment(raw)
  const known = unpackedByOther.get(raw)
  if (known) {
    unpackedByOther.delete(raw)
    return known
  }
  const segment = readDeliverySegment(raw)
  unpackedByOther.set(raw, segment)
  return segment
}

/**
 * For a reader that shares its watch with another one. Undefined if the segment is being deleted: that changes its version, and all of
 * it was closed before.
 * @throws ZodError if it is no segment
 */
export function readLiveSegment(raw: StoredSegment, bytes?: number): LogSegment | undefined {
  if (raw.metadata.deletionTimestamp !== undefined) return undefined
  return toLogSegment(readSharedSegment(raw, bytes), bytes ?? segmentBytes(raw))
}

/** When a segment was stored, milliseconds since 1970: by its writer's clock if the API server did not say. */
export function storedAtOf(
  { creationTimestamp = '' }: { creationTimestamp?: string | undefined },
  { writtenAt }: { writtenAt: number },
): number {
  return Date.parse(creationTimestamp) || writtenAt
}

/** About its size as JSON. */
export function segmentBytes({ spec }: StoredSegment): number {
  return SEGMENT_OVERHEAD_BYTES + storedBytes(spec)
}

/** @param bytes its size as JSON; absent: about that @throws ZodError if it is no segment */
export function readSegment(raw: StoredSegment, bytes = segmentBytes(raw)): LogSegment {
  return toLogSegment(readDeliverySegment(raw), bytes)
}

function toLogSegment({ metadata, spec }: ReturnType<typeof readDeliverySegment>, bytes: number): LogSegment {
  return {
    name: metadata.name,
    version: Number(metadata.resourceVersion),
    writtenAt: spec.writtenAt,
    createdAt: storedAtOf(metadata, spec),
    ...decodeDeliveries(spec),
    bytes,
  }
}

/** For the only reader of a process, with what the segment adds to the store. Undefined if it is being deleted. @throws ZodError if it is no segment */
function readCountedSegment(raw: StoredSegment, bytes = segmentBytes(raw)): CountedSegment | undefined {
  if (raw.metadata.deletionTimestamp !== undefined) return undefined
  const stored = readDeliverySegment(raw)
  return { ...toLogSegment(stored, bytes), written: writtenBy(stored.spec, bytes) }
}

/** Undefined if it is being deleted: that changes its version, and it was read before. @throws ZodError if it is no segment */
export function readLoggedOutcomes(raw: StoredSegment, log: Logger): LoggedOutcomes | undefined {
  if (raw.metadata.deletionTimestamp !== undefined) return undefined
  const { metadata, spec } = readOutcomeSegment(raw)
  const { records, unreadable } = decodeLogRecords(spec)
  const { name } = metadata
  if (unreadable > 0) {
    const message = 'failed to read outcomes; their deliveries may be sent again'
    log.error('outcomes_unreadable', message, { segment: name, lines: unreadable })
  }
  return {
    name,
    version: Number(raw.metadata.resourceVersion),
    writer: spec.writer,
    createdAt: storedAtOf(metadata, spec),
    lowWater: Number(spec.lowWater),
    size: storedBytes(raw.spec),
    records,
  }
}

/** What a watch of the two halves of the log needs. */
export type LogWatch = {
  lowWater: () => number
  /** Called when the store is older than what was read of it. */
  onStoreRestored: () => void
  /** Called when outcomes may have been written and deleted that were never read here. */
  onOutcomesMissed: () => void
  logger: Logger
}

/** Of bodies in memory while the log is listed, which goes backwards. Those of older segments stay; others are read again when due. */
const LISTED_BODY_BYTES = 64 * 1024 * 1024

const LISTED_BODIES = {
  maxBytes: LISTED_BODY_BYTES,
  /** A character takes two bytes at most. */
  bytesOf: ({ bodies }: CountedSegment) => bodies.reduce((sum, body) => sum + 2 * (body?.length ?? 0), 0),
  lighten: (segment: CountedSegment): CountedSegment => ({ ...segment, bodies: [] }),
}

export function segmentsOf(log: LogWatch) {
  return { ...fromLowWater(log), decode: readCountedSegment, listBudget: LISTED_BODIES }
}

/** How far the clocks of the replica that deletes and of the one that watches may differ, plus the time from decision to deletion. */
const MISSED_MARGIN_MS = 20_000
/** After so much time without a word of a sequence, segments may have been appended and deleted. */
export const MISSED_AFTER_MS = MIN_AGE_MS - MISSED_MARGIN_MS

export function outcomesOf(log: LogWatch) {
  return {
    ...fromLowWater(log),
    gapDetection: { afterMs: MISSED_AFTER_MS, onGap: log.onOutcomesMissed },
    decode: (raw: StoredSegment) => readLoggedOutcomes(raw, log.logger),
  }
}

/** What the two sequences have in common. */
function fromLowWater({ lowWater, onStoreRestored }: LogWatch) {
  return {
    pageSize: LOG_PAGE,
    largestPage: LARGEST_LOG_PAGE,
    onStoreRestored,
    stopListing: stopAtLowWater(lowWater),
  }
}

/** The lines of the events of a segment; undefined if it was deleted. @throws ApiError; UnreadableError */
export async function readEventLines(
  store: Pick<LogStore, 'read'>,
  name: string,
): Promise<readonly string[] | undefined> {
  const stored = await store.read('events', name)
  if (!stored) return undefined
  try {
    return readDeliverySegment(stored).spec.events
  } catch {
    throw new UnreadableError(deliverySegmentKind.kind, name)
  }
}

/**
 * A body over 16 KiB, from the segment that holds it.
 * @param organization of the delivery; bodies of others are not returned, or anyone who can create a delivery by hand could have them sent
 * @returns undefined if the segment was deleted (by hand: retention keeps it), or has no such event of the organization
 * @throws UnreadableError
 */
export async function readLargePayload(
  store: Pick<LogStore, 'read'>,
  ref: PayloadRef,
  organization: string,
): Promise<string | undefined> {
  const lines = await readEventLines(store, ref.segment)
  const event = decodeEventLine(lines?.[ref.event] ?? '')
  return event?.namespace === organization ? event.payload : undefined
}
