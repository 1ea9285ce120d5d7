import type { AcceptedEvent, DeliveryTarget, SegmentEvent } from '../../apis/delivery-segment.ts'
import type { WebhookEndpoint } from '../../apis/webhook-endpoint.ts'
import { type EventOutline, MAX_DATA_BYTES, type WebhookEventStatus } from '../../apis/webhook-event.ts'
import { type ConditionUpdate, mergeConditions } from '../../kube/status.ts'
import { byteLength, webhookPayload } from '../log/codec.ts'
import { eventIdOf } from './store.ts'

/** Which endpoints get an event (interface §6): decided once, at acceptance. */

/** The part of an endpoint that matching looks at. */
export type Subscriber = {
  name: string
  uid: string
  eventTypes: readonly string[]
  enabled: boolean
  deleting: boolean
}

/** Enabled endpoints of the organization that subscribe to `type` or to `*`, in the order of their names. */
export function matchEndpoints(type: string, endpoints: Iterable<Subscriber>): Subscriber[] {
  const matched: Subscriber[] = []
  for (const endpoint of endpoints) {
    if (!endpoint.enabled || endpoint.deleting) continue
    if (endpoint.eventTypes.includes('*') || endpoint.eventTypes.includes(type)) matched.push(endpoint)
  }
  return matched.sort((a, b) => (a.name < b.name ? -1 : 1))
}

/** @param enabled what `decideState` decides for it */
export function subscriberOf(endpoint: WebhookEndpoint, enabled: boolean): Subscriber {
  return {
    name: endpoint.metadata.name,
    uid: endpoint.metadata.uid,
    eventTypes: endpoint.spec.eventTypes,
    enabled,
    deleting: endpoint.metadata.deletionTimestamp !== undefined,
  }
}

/** Turns what is to be published into what the delivery log takes. */

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

/** Whether an event may be published (settled: "Events and deliveries"). */

/** Types that only Davit publishes. */
export const RESERVED_PREFIX = 'webhook.'

export type RefusalReason =
  | 'Reserved'
  | 'UnknownType'
  | 'NotJson'
  | 'TooLarge'
  | 'SchemaMismatch'
  | 'SchemaInvalid'
  | 'NotAnOrganization'
  | 'Unreadable'
export type Refusal = { reason: RefusalReason; message: string }

/** What of an event a rule was broken by, however the event came. */
export type EventPart = 'type' | 'data'
/** @param words without the name of the part, for whoever names it in his own way */
export type EventRefusal = { reason: RefusalReason; part: EventPart; message: string }

export type CheckedType = { name: string; known: boolean }

/** The first rule that the event breaks; undefined when it may be published, as far as its schema allows. */
export function refuseEvent(type: CheckedType, dataText: string): EventRefusal | undefined {
  if (type.name.startsWith(RESERVED_PREFIX)) {
    const words = `${type.name} is published by Davit only; types that start with "webhook." are reserved`
    return { reason: 'Reserved', part: 'type', message: words }
  }
  if (!type.known) {
    return { reason: 'UnknownType', part: 'type', message: `there is no EventType ${type.name}` }
  }
  if (byteLength(dataText) > MAX_DATA_BYTES) {
    const words = `${byteLength(dataText)} bytes of JSON; at most ${MAX_DATA_BYTES} are allowed`
    return { reason: 'TooLarge', part: 'data', message: words }
  }
  return undefined
}

/** What was decided of a WebhookEvent, and the status that says so. */

/** `deliveries` is the number of endpoints that get it. */
export type EventDecision = { kind: 'accepted'; deliveries: number } | { kind: 'refused'; refusal: Refusal }

/**
 * Verdicts that no status says yet. With so many, nothing more is decided: all of it would be judged anew after a restart. Below its
 * reserve an organization goes on whatever others have.
 */
const MAX_UNWRITTEN = { organization: 5000, all: 50_000, reserve: 500 }

/** @param own verdicts of the organization that no status says yet @param all those of all organizations */
export function mayDecideMore(own: number, all: number): boolean {
  if (own >= MAX_UNWRITTEN.organization) return false
  return all < MAX_UNWRITTEN.all || own < MAX_UNWRITTEN.reserve
}

/** @param at `now` in milliseconds since 1970; `isOver` says that all of its deliveries have ended */
export function eventStatus(
  event: EventOutline,
  verdict: EventDecision,
  { now, isOver }: { now: number; isOver: boolean },
): Partial<WebhookEventStatus> {
  const generation = event.metadata.generation ?? 1
  const common = (findings: ConditionUpdate[]) => ({
    observedGeneration: generation,
    conditions: mergeConditions([], findings, { now, generation }),
  })
  const finishedAt = new Date(now).toISOString()
  if (verdict.kind === 'refused') {
    const { reason, message } = verdict.refusal
    const findings: ConditionUpdate[] = [
      { type: 'Ready', status: 'False', reason, message },
      { type: 'Stalled', status: 'True', reason, message },
    ]
    return { state: 'refused', finishedAt, ...common(findings) }
  }
  const { deliveries } = verdict
  const none = deliveries === 0
  const message = none
    ? 'No enabled endpoint subscribes to its type.'
    : `It goes to ${deliveries} endpoint(s).`
  const reason = none ? 'NobodySubscribed' : 'Accepted'
  return {
    state: none || isOver ? 'dispatched' : 'accepted',
    eventId: eventIdOf(event),
    deliveries,
    ...(none || isOver ? { finishedAt } : {}),
    ...common([{ type: 'Ready', status: 'True', reason, message }]),
  }
}
