import type { AcceptedEvent, DeliveryTarget, SegmentEvent } from '../../apis/delivery-segment.ts'
import type { LogRecord } from '../../apis/outcome-segment.ts'

/**
 * The delivery log as the delivery plane needs it: append, follow, record outcomes. Everything that is to be
 * delivered enters through `EventLog.append`.
 */

/** Where an append landed: the segment's name and version, and the index of its first delivery in it. */
export type Appended = { segment: string; version: number; firstDelivery: number }

export interface EventLog {
  /**
   * Appends events together and in order; resolves when they are durable, and only then they are accepted.
   * @throws ApiError the store refused or did not answer (they may have been written: repeat under the same ids)
   * @throws OverloadedError too many appends wait
   */
  append(events: readonly AcceptedEvent[]): Promise<Appended>
}

/** One delivery of a segment, with its place in it. */
export type LogDelivery = {
  index: number
  eventIndex: number
  event: SegmentEvent
  endpoint: Readonly<DeliveryTarget>
}

/** A segment as it was read. Times in milliseconds since 1970. */
export type LogSegment = {
  name: string
  version: number
  writtenAt: number
  createdAt: number
  deliveries: LogDelivery[]
  /** Of the segment as JSON; absent where nobody has counted them. */
  bytes?: number
  /** Lines that say of a delivery and cannot be read. */
  unreadable: number
  /**
   * Idempotency-Keys in it: time of the newest, in milliseconds since 1970, and bytes of those that make no delivery;
   * absent where there are none.
   */
  keys?: { newestAt: number; bytes: number }
  /** Events with a key that nobody gets: later places of it are repeats all the same. Absent where there are none. */
  undelivered?: { eventIndex: number; id: string; namespace: string; key: string }[]
}

export interface OutcomeRecorder {
  /**
   * Resolves when the record is durable. Goes on trying until it is, or until the process ends. Records wait some
   * milliseconds for company, unless a lane stands still until it is there.
   * @returns the version of the segment that it is in
   */
  record(record: LogRecord, options?: { isUrgent?: boolean }): Promise<number>
  /** False while so many or so old records wait that nothing new should be sent. */
  healthy(): boolean
}

/** A segment of outcomes, as the watch shows it. */
export type LoggedOutcomes = {
  name: string
  version: number
  /** The start of the replica that wrote it. */
  writer: string
  /** Milliseconds since 1970. */
  createdAt: number
  lowWater: number
  /** Characters of its records. */
  size: number
  records: readonly LogRecord[]
}
