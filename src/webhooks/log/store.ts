import type { AcceptedEvent, DeliveryTarget, SegmentEvent } from '../../apis/delivery-segment.ts'
import type { LogRecord } from '../../apis/outcome-segment.ts'

/**
 * The delivery log as its users need it: append events, read segments, record outcomes. README.md explains the protocol. Every delivery
 * starts with `EventLog.append`.
 */

/** Where an append landed: the segment's name and version, and the index of its first delivery in the segment. */
export type Appended = { segment: string; version: number; firstDelivery: number }

export interface EventLog {
  /**
   * Appends events together and in order. Resolves when they are durable: only then they are accepted.
   * @throws ApiError rejected or unanswered (they may have been written: retry under the same ids)
   * @throws OverloadedError too many appends wait
   */
  append(events: readonly AcceptedEvent[]): Promise<Appended>
}

/**
 * An event as a reader of the log keeps it. Its body is not in it, and its other words are copies: a cut of the text of its segment would
 * keep all of that in memory.
 */
export type LoggedEvent = Omit<SegmentEvent, 'payload'> & {
  /** Of its body, as UTF-8. */
  bodyBytes: number
  /** Its deliveries in the segment. */
  receivers: number
}

/** One delivery of a segment; `index` is its index in the segment. */
export type LogDelivery = {
  index: number
  eventIndex: number
  event: LoggedEvent
  endpoint: Readonly<DeliveryTarget>
}

/** Idempotency keys of a segment. @property newestAt time of the newest key, milliseconds since 1970 */
export type SegmentKeys = { newestAt: number }

/** An event that had no receivers when it was accepted. */
export type UndeliveredEvent = Pick<LogDelivery, 'eventIndex' | 'event'>

/** What the lines of a segment say. */
export type SegmentContent = {
  deliveries: LogDelivery[]
  /** By index of the event: cuts of the text of the segment, to be kept no longer than that. Absent for a line that cannot be decoded. */
  bodies: readonly (string | undefined)[]
  /** Delivery lines that cannot be decoded. */
  unreadable: number
  /** Absent if no event has an idempotency key. */
  keys?: SegmentKeys
  /** Absent if there are none. */
  undelivered?: UndeliveredEvent[]
}

/** A decoded segment. Times in milliseconds since 1970. */
export type LogSegment = SegmentContent & {
  name: string
  version: number
  writtenAt: number
  createdAt: number
  /** About its size as JSON, as it is stored. */
  bytes: number
}

/** @property written what it adds to the store by organization (`writtenBy`) */
export type CountedSegment = LogSegment & { written: ReadonlyMap<string, number> }

export interface OutcomeRecorder {
  /**
   * Resolves when the record is durable; retries until then, or until the process ends. Records wait some milliseconds to share
   * a write, unless a queue is blocked until this one is durable (`isUrgent`).
   * @returns the version of the segment with the record
   */
  record(record: LogRecord, options?: { isUrgent?: boolean }): Promise<number>
  /** False while so many or so old records wait that no new attempts should start. */
  healthy(): boolean
}

/** A segment of outcomes from the watch. Times in milliseconds since 1970. */
export type LoggedOutcomes = {
  name: string
  version: number
  /** The start of the replica that wrote it. */
  writer: string
  createdAt: number
  lowWater: number
  /** Characters of its records. */
  size: number
  records: readonly LogRecord[]
}
