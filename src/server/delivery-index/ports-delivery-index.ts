/** The log of an endpoint as one list: what lies in segments and what has an object look alike (interface §2.5, §4.2). */
import type { AcceptedEvent } from '../../apis/delivery-segment.ts'
import type { DeliveryAttempt, DeliveryState } from '../../apis/webhook-delivery.ts'
import type { Appended } from '../../webhooks/log/store.ts'

/** Whose log: one recreated under the same name has another UID, and a log of its own. */
export type LoggedEndpoint = { namespace: string; name: string; uid: string }

/** A delivery as its owner sees it. Times are ISO 8601, UTC, with milliseconds. */
export type DeliveryLine = {
  /** `msg_...` */
  deliveryId: string
  eventType: string
  status: DeliveryState
  attemptCount: number
  /** Only while it is pending or retrying, and known. */
  nextAttemptAt?: string
  /** Only when it has come to its end. */
  completedAt?: string
  /** The `msg_` id of the delivery that this one repeats. */
  redeliveryOf?: string
  /** The time in its id. */
  createdAt: string
}

/** Every attempt, oldest first. */
export type DeliveryDetail = DeliveryLine & { attempts: readonly DeliveryAttempt[] }

export type LogQuery = {
  /** Lines of a page, at least 1. */
  limit: number
  /** The last id that the reader has, `msg_...`; also of one that was deleted since. */
  after?: string | undefined
  status?: DeliveryState | undefined
  eventType?: string | undefined
}

/** `next` is the last id of the page; absent where nothing is left behind it. */
export type LogPage = { deliveries: DeliveryLine[]; next?: string }

export interface DeliveryIndex {
  /** Newest first. @throws RefusedError overloaded while the log is being read */
  list(endpoint: LoggedEndpoint, query: LogQuery): Promise<LogPage>
  /**
   * Undefined when the endpoint has no such delivery (any more).
   * @throws RefusedError overloaded, unavailable
   */
  read(endpoint: LoggedEndpoint, deliveryId: string): Promise<DeliveryDetail | undefined>
}

/** Lets readers see at once what this process has appended. */
export interface OwnAppends {
  /** @param events those of one append, in their order, and where they landed */
  appended(place: Appended, events: readonly AcceptedEvent[]): void
}

/** Where a delivery's event lies in the log, so that nobody has to search for it. */
export interface DeliveryPlaces {
  /** Name of its DeliverySegment; undefined where that is gone, or the delivery is not known. */
  segmentOf(endpoint: LoggedEndpoint, deliveryId: string): string | undefined
  /**
   * Waits a moment for a delivery that is not known and whose id says that it was accepted just now, by another process.
   * @returns whether it has come
   * @throws RefusedError `overloaded` where the log cannot be watched: it may be there all the same
   */
  appears(endpoint: LoggedEndpoint, deliveryId: string): Promise<boolean>
}
