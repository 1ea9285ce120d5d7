/**
 * A delivery that has not come to its end, as the process holds it. There may be hundreds of thousands, so it
 * is slim: the payload stays in the log's segment or in the delivery's object.
 */
import type { WebhookDeliveryStatus } from '../../apis/webhook-delivery.ts'
import { copyString } from '../../lib/own-text.ts'
import type { Clock } from '../../lib/ports-clock.ts'
import { isFromWebhookEvent } from '../events/plan.ts'
import { INLINE_PAYLOAD_BYTES } from '../log/payload.ts'
import type { LogDelivery } from '../log/store.ts'
import type { OpenSegment } from './open-segments.ts'
import type { EndpointQueue } from './queue.ts'
import { longestWaitMs } from './retry-schedule.ts'

/**
 * queued   may start when its lane lets it
 * waiting  its next attempt is due later, and a timer will queue it; or another replica drives it
 * sending  an attempt is under way, or its outcome is being stored
 * passed   those behind it go on, though it is pending: its end is recorded and its object follows, or it cannot be read
 * ended    nothing more will happen
 */
export type Stage = 'queued' | 'waiting' | 'sending' | 'passed' | 'ended'

/** Still an entry of the log: no object shows it yet. */
export type InLog = {
  kind: 'log'
  segment: OpenSegment
  entry: LogDelivery
  /** What attempts from the log have come to; absent before the first. */
  status?: WebhookDeliveryStatus
  /** The object is being made; settles when it is there or cannot be made now. */
  promotion?: Promise<void> | undefined
  /** Since when its object cannot be made (quota, policy), milliseconds since 1970. */
  refusedSince?: number
  /** Since when Davit has no right to make it, monotonic. */
  lacksRightSince?: number
  /**
   * Whoever had it before, or a call of this process whose answer was lost, may still be about to make its object. So
   * there has to be one that shows its end: nobody else's then takes its name.
   */
  objectMayExist?: boolean
  /** When such a call was last known not to be answered yet, monotonic. */
  unansweredAt?: number
}

/** A WebhookDelivery has it, and that object's status is the truth. */
export type InObject = { kind: 'object' }
/** One for all: there may be hundreds of thousands. */
export const IN_OBJECT: InObject = { kind: 'object' }

export type Delivery = {
  /** The 26 characters of the id. */
  readonly name: string
  readonly queue: EndpointQueue
  readonly version: number
  readonly index: number
  /** When the event was accepted, milliseconds since 1970. */
  readonly acceptedAt: number
  /** Its event was made as a WebhookEvent, or may have been: whether all of that have ended is looked at. */
  readonly ofWebhookEvent: boolean
  /** What an object of it holds of its payload. */
  readonly bytes: number
  attempts: number
  /** When the next attempt is due, milliseconds since 1970; 0 for at once. */
  dueAt: number
  stage: Stage
  /** It came to its end, or is no longer this process's business. */
  left: boolean
  storage: InLog | InObject
  /** The version in which its object shows its end, where this process wrote that. */
  endVersion?: string
}

/** One that the log alone knows of; unless told otherwise it is queued where this process drives its lane. */
export function deliveryFromEntry(
  lane: EndpointQueue,
  opened: OpenSegment,
  entry: LogDelivery,
  stage: Stage = lane.driver === 'us' ? 'queued' : 'waiting',
): Delivery {
  const { event, index } = entry
  return {
    // It may wait for hours, in which the text of the segment must not stay.
    name: copyString(event.id),
    queue: lane,
    version: opened.segment.version,
    index,
    acceptedAt: opened.segment.writtenAt,
    ofWebhookEvent: isFromWebhookEvent(event),
    bytes: Math.min(event.payload.length, INLINE_PAYLOAD_BYTES),
    attempts: 0,
    dueAt: 0,
    stage,
    left: false,
    storage: { kind: 'log', segment: opened, entry },
  }
}

/**
 * When its next attempt is due, milliseconds since 1970. The clock may have been set back since that was decided: storing it takes a
 * while, and another replica may have done it.
 */
export function dueTime(
  { dueAt, attempts }: Delivery,
  { clock, waitScale }: { clock: Pick<Clock, 'now'>; waitScale: number },
): number {
  return Math.min(dueAt, clock.now() + longestWaitMs(attempts, waitScale))
}

export function compareDeliveries(a: Delivery, b: Delivery): number {
  return a.version - b.version || a.index - b.index
}
