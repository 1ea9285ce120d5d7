/** Turns what is to be published into what the delivery log takes. */
import type { AcceptedEvent, DeliveryTarget, SegmentEvent } from '../../apis/delivery-segment.ts'
import { webhookPayload } from '../log/payload.ts'

export type NewEvent = {
  /** The 26 characters of the id. */
  name: string
  namespace: string
  type: string
  /** Valid JSON; its bytes reach the receiver as they are. */
  dataText: string
  /** Milliseconds since 1970. */
  acceptedAt: number
  /** What makes a repeat harmless. */
  key?: string
  /** What the request asked for that brought the key, as a keyed hash. */
  fingerprint?: string
}

export function acceptEvent(event: NewEvent, targets: readonly DeliveryTarget[]): AcceptedEvent {
  const { name, namespace, type, dataText, acceptedAt } = event
  return {
    event: {
      id: name,
      namespace,
      type,
      payload: webhookPayload(type, acceptedAt, dataText),
      ...keyOf(event),
    },
    targets,
  }
}

/**
 * Whether it was made as a WebhookEvent, of which somebody wants to know when all of it has ended. Such an event has its own id as
 * its key; a key of REST is a hash.
 */
export function isFromWebhookEvent({ id, key }: Pick<SegmentEvent, 'id' | 'key'>): boolean {
  return key === id
}

export type Redelivery = {
  name: string
  namespace: string
  type: string
  payload: string
  redeliveryOf: string
  key?: string
  fingerprint?: string
}

/** The original's type and body bytes as a brand-new delivery (interface §4.2 rule 2). */
export function acceptRedelivery(redelivery: Redelivery, target: DeliveryTarget): AcceptedEvent {
  const { name, namespace, type, payload, redeliveryOf } = redelivery
  return {
    event: { id: name, namespace, type, payload, redeliveryOf, ...keyOf(redelivery) },
    targets: [target],
  }
}

function keyOf({ key, fingerprint }: Pick<NewEvent, 'key' | 'fingerprint'>) {
  return {
    ...(key === undefined ? {} : { key }),
    ...(fingerprint === undefined ? {} : { fingerprint }),
  }
}
