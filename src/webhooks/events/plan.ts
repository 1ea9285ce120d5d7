import type { AcceptedEvent, DeliveryTarget, SegmentEvent } from '../../apis/delivery-segment.ts'
import { messageId } from '../../apis/ids.ts'
import type { WebhookEndpoint } from '../../apis/webhook-endpoint.ts'
import {
  type EventOutline,
  MAX_DATA_BYTES,
  type WebhookEventSpec,
  type WebhookEventStatus,
} from '../../apis/webhook-event.ts'
import { type ConditionUpdate, mergeConditions } from '../../kube/status.ts'
import { MAX_JSON_DEPTH, readStrictJson } from '../../lib/strict-json.ts'
import { counted } from '../../lib/text.ts'
import { byteLength, webhookPayload } from '../log/codec.ts'
import { eventName } from './store.ts'

/**
 * Decides whether an event may be published, which endpoints get it (once, at acceptance: interface §6), what is appended to the log, and
 * the status of a WebhookEvent.
 */

/** @property enabled according to `decideState` */
export type Subscriber = { endpoint: Pick<WebhookEndpoint, 'metadata' | 'spec'>; enabled: boolean }

/** Enabled endpoints of the organization that subscribe to `type` or to `*`, in the order of their names. */
export function matchEndpoints(type: string, endpoints: Iterable<Subscriber>): DeliveryTarget[] {
  const matched: DeliveryTarget[] = []
  for (const { endpoint, enabled } of endpoints) {
    const { name, uid, deletionTimestamp } = endpoint.metadata
    const { eventTypes } = endpoint.spec
    if (!enabled || deletionTimestamp !== undefined) continue
    if (eventTypes.includes('*') || eventTypes.includes(type)) matched.push({ name, uid })
  }
  return matched.sort((a, b) => (a.name < b.name ? -1 : 1))
}

type Keyed = {
  /** The 26 characters of the id. */
  name: string
  namespace: string
  type: string
  /** Of several events with one key only the first is delivered. */
  key?: string
  /** A keyed hash of the request that brought the key. */
  fingerprint?: string
}

/** @property dataText valid JSON, sent byte for byte @property happenedAt for the body, milliseconds since 1970 */
export type NewEvent = Keyed & { dataText: string; happenedAt: number }

export function acceptEvent(
  { name, dataText, happenedAt, ...event }: NewEvent,
  targets: readonly DeliveryTarget[],
): AcceptedEvent {
  const payload = webhookPayload(event.type, happenedAt, dataText)
  return { event: { id: name, ...event, payload }, targets }
}

/** The original's type and body bytes as a new delivery (interface §4.2 rule 2). */
export function acceptRedelivery(
  { name, ...event }: Keyed & { payload: string; redeliveryOf: string },
  target: DeliveryTarget,
): AcceptedEvent {
  return { event: { id: name, ...event }, targets: [target] }
}

/** Whether it was created as a WebhookEvent, whose status says when all deliveries have ended: its key is its own id. */
export function isFromWebhookEvent({ id, key }: Pick<SegmentEvent, 'id' | 'key'>): boolean {
  return key === id
}

/** Types that only Davit publishes. */
export const RESERVED_PREFIX = 'webhook.'

export type RefusalReason =
  | 'Reserved'
  | 'UnknownType'
  | 'DataRequired'
  | 'DataAmbiguous'
  | 'NotJson'
  | 'InvalidData'
  | 'TooLarge'
  | 'InTheFuture'
  | 'SchemaMismatch'
  | 'SchemaInvalid'
  | 'NotAnOrganization'
  | 'Unreadable'
export type Refusal = { reason: RefusalReason; message: string }

/** @property part the invalid part of the event @property message for REST, next to the name of the part */
export type EventRefusal = { reason: RefusalReason; part: 'type' | 'data' | 'timestamp'; message: string }

/** The data of a WebhookEvent, and the field that it is in. */
export type EventData = { field: 'data' | 'dataText'; text: string }

/** The event that has the data is a level, too, as it is in a request to the REST API. */
const MAX_DATA_DEPTH = MAX_JSON_DEPTH - 1

/** @returns the data as JSON text, which `readData` has to check */
export function dataOf({ data, dataText }: Pick<WebhookEventSpec, 'data' | 'dataText'>): EventData | Refusal {
  const isSet = data !== undefined && data !== null
  if (isSet && dataText !== undefined) {
    const message = 'The spec must set either data or dataText, but it sets both.'
    return { reason: 'DataAmbiguous', message }
  }
  if (dataText !== undefined) return { field: 'dataText', text: dataText }
  if (!isSet) {
    const message =
      'The spec must set either data (any JSON value except null) or dataText, but it sets neither.'
    return { reason: 'DataRequired', message }
  }
  try {
    return { field: 'data', text: JSON.stringify(data) }
  } catch {
    // It recurses, and the API server allows a hundred times as many levels.
    return { reason: 'InvalidData', message: `spec.data is nested more than ${MAX_DATA_DEPTH} levels deep.` }
  }
}

/** Reads the data as strictly as the REST API reads its requests. @returns the value that the text stands for */
export function readData({
  field,
  text,
}: EventData): { value: unknown; refusal?: undefined } | { refusal: Refusal } {
  const { json, fault } = readStrictJson(text, { maxDepth: MAX_DATA_DEPTH })
  if (!fault) return { value: json.value }
  const { kind, what, place } = fault
  const reason = kind === 'syntax' ? 'NotJson' : 'InvalidData'
  // The text of `data` is not as its author wrote it.
  if (kind === 'depth')
    return {
      refusal: { reason, message: `spec.${field} is ${what}${field === 'data' ? '' : ` (${place})`}.` },
    }
  const at = place === '' ? '' : ` at ${place}`
  return { refusal: { reason, message: `spec.${field} is invalid: ${what}${at}.` } }
}

/** For clocks that are ahead of Davit's. */
const MAX_AHEAD_MS = 5 * 60_000

/**
 * The first rule that the event breaks (interface S8); undefined if none, its schema aside.
 * @param happenedAt if it was given, milliseconds since 1970 @param now the same
 */
export function refuseEvent(
  type: { name: string; known: boolean },
  { dataText, happenedAt = 0 }: { dataText: string; happenedAt?: number | undefined },
  now: number,
): EventRefusal | undefined {
  if (type.name.startsWith(RESERVED_PREFIX)) {
    const message = 'the prefix "webhook." is reserved for events that Davit publishes'
    return { reason: 'Reserved', part: 'type', message }
  }
  if (!type.known) {
    return { reason: 'UnknownType', part: 'type', message: `EventType ${type.name} does not exist` }
  }
  const bytes = byteLength(dataText)
  if (bytes > MAX_DATA_BYTES) {
    const message = `must be at most ${MAX_DATA_BYTES} bytes of JSON, but is ${bytes} bytes`
    return { reason: 'TooLarge', part: 'data', message }
  }
  if (happenedAt - now > MAX_AHEAD_MS)
    return { reason: 'InTheFuture', part: 'timestamp', message: 'must be at most five minutes in the future' }
  return undefined
}

/** `deliveries` is the number of endpoints to which it is sent. */
export type EventDecision = { kind: 'accepted'; deliveries: number } | { kind: 'refused'; refusal: Refusal }

/**
 * Limits of decisions that no status has yet: a restart would decide all of them again. Below its reserve an organization goes on
 * whatever the others have.
 */
const MAX_UNWRITTEN = { organization: 5000, all: 50_000, reserve: 500 }

/** @param own unwritten decisions of the organization @param all those of all organizations */
export function mayDecideMore(own: number, all: number): boolean {
  if (own >= MAX_UNWRITTEN.organization) return false
  return all < MAX_UNWRITTEN.all || own < MAX_UNWRITTEN.reserve
}

/** @param now milliseconds since 1970 @param isOver all of its deliveries have ended */
export function eventStatus(
  event: EventOutline,
  decision: EventDecision,
  now: number,
  isOver: boolean,
): Partial<WebhookEventStatus> {
  const generation = event.metadata.generation ?? 1
  const common = (updates: ConditionUpdate[]) => ({
    observedGeneration: generation,
    conditions: mergeConditions([], updates, { now, generation }),
  })
  const finishedAt = new Date(now).toISOString()
  if (decision.kind === 'refused') {
    const { reason, message } = decision.refusal
    const updates: ConditionUpdate[] = [
      { type: 'Ready', status: 'False', reason, message },
      { type: 'Stalled', status: 'True', reason, message },
    ]
    return { state: 'refused', finishedAt, ...common(updates) }
  }
  const { deliveries } = decision
  const none = deliveries === 0
  const message = none
    ? 'No enabled endpoint was subscribed to this event type when Davit accepted the event.'
    : `Davit accepted the event for delivery to ${counted(deliveries, 'endpoint')}.`
  const reason = none ? 'NoSubscribers' : 'Accepted'
  return {
    state: none || isOver ? 'dispatched' : 'accepted',
    eventId: messageId(eventName(event)),
    deliveries,
    ...(none || isOver ? { finishedAt } : {}),
    ...common([{ type: 'Ready', status: 'True', reason, message }]),
  }
}
