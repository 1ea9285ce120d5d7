/**
 * A delivery that has not come to its end, as the process holds it. There may be hundreds of thousands, so it
 * is slim: the payload stays in the log's segment or in the delivery's object.
 */
import type { WebhookDeliveryStatus } from '../../api/webhook-delivery.ts'
import type { LogDelivery } from '../../ports/delivery-log.ts'
import type { Lane } from './lane.ts'
import type { OpenSegment } from './open-segments.ts'

/**
 * queued   may start when its lane lets it
 * waiting  its next attempt is due later; a timer will queue it
 * sending  an attempt is under way, or its outcome is being stored
 * ended    nothing more will happen
 */
export type Stage = 'queued' | 'waiting' | 'sending' | 'ended'

/** Still an entry of the log: no object shows it yet. */
export type LogHome = {
  kind: 'log'
  segment: OpenSegment
  entry: LogDelivery
  /** What attempts from the log have come to; absent before the first. */
  status?: WebhookDeliveryStatus
  /** The object is being made; settles when it is there or cannot be made now. */
  moving?: Promise<void> | undefined
  /** Since when its object cannot be made (quota, policy), milliseconds since 1970. */
  refusedSince?: number
}

/** A WebhookDelivery has it, and that object's status is the truth. */
export type ObjectHome = { kind: 'object' }
/** One for all: there may be hundreds of thousands. */
export const OBJECT_HOME: ObjectHome = { kind: 'object' }

export type Delivery = {
  /** The 26 characters of the id. */
  readonly name: string
  readonly lane: Lane
  readonly version: number
  readonly index: number
  /** When the event was accepted, milliseconds since 1970. */
  readonly acceptedAt: number
  /** What an object of it holds of its payload. */
  readonly bytes: number
  attempts: number
  /** When the next attempt is due, milliseconds since 1970; 0 for at once. */
  dueAt: number
  stage: Stage
  /** It came to its end, or is no longer this process's business. */
  left: boolean
  home: LogHome | ObjectHome
  /** The version in which its object shows its end, where this process wrote that. */
  endVersion?: string
}

export function compareDeliveries(a: Delivery, b: Delivery): number {
  return a.version - b.version || a.index - b.index
}
