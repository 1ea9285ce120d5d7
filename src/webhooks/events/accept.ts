import { namespaces } from '../../apis/core-kinds.ts'
import type { AcceptedEvent, DeliveryTarget } from '../../apis/delivery-segment.ts'
import { type EventType, eventType, eventTypes } from '../../apis/event-type.ts'
import { webhookEndpoint, webhookEndpoints } from '../../apis/webhook-endpoint.ts'
import {
  type EventOutline,
  type WebhookEvent,
  webhookEvent,
  webhookEvents,
} from '../../apis/webhook-event.ts'
import { findObject, type ResourceReader } from '../../kube/client.ts'
import { listObjects } from '../../kube/list.ts'
import { type Organizations, readOrganization } from '../../kube/organizations.ts'
import type { Clock } from '../../lib/clock.ts'
import { parseJson } from '../../lib/json.ts'
import type { SchemaValidator } from '../../lib/json-schema.ts'
import type { EventTypeStore } from '../endpoints/event-types.ts'
import { decideState } from '../endpoints/plan.ts'
import { sizeOf } from '../log/codec.ts'
import type { DedupeIndex } from '../log/dedupe.ts'
import type { EventLog } from '../log/store.ts'
import {
  acceptEvent,
  type EventDecision,
  type EventRefusal,
  matchEndpoints,
  type Refusal,
  refuseEvent,
  type Subscriber,
  subscriberOf,
} from './plan.ts'
import { eventName } from './store.ts'

/** Whether one WebhookEvent is accepted, and what is to be appended for it then. */

type ValidateEventOptions = {
  resources: ResourceReader
  organizations: Organizations
  catalogue: EventTypeStore
  validator: SchemaValidator
  keys: DedupeIndex
  clock: Clock
}

/** Stored under other rules than today's: it must not hold up those behind it. */
const UNREADABLE: Refusal = {
  reason: 'Unreadable',
  message: 'spec: it does not fit the rules of this version; make a new WebhookEvent',
}

/** `append`: what is to be appended for it, one or none. `isShown`: the log has it, and was shown. */
type ValidatedEvent = { verdict: EventDecision; append: AcceptedEvent[]; isShown?: true }

/** @throws ApiError what may pass by itself */
async function validateEvent(
  options: ValidateEventOptions,
  outline: EventOutline,
  subscribers: readonly Subscriber[],
): Promise<ValidatedEvent | 'gone'> {
  const { clock, keys, resources } = options
  const { namespace } = outline.metadata
  const targets = targetsOf(outline, subscribers)
  if (keys.has(namespace, eventName(outline), clock.monotonic())) {
    // As many as would get it today: those that it went to are in the log, under their ids.
    return {
      verdict: { kind: 'accepted', deliveries: Math.max(1, targets.length) },
      append: [],
      isShown: true,
    }
  }
  const event = await readEvent(resources, outline)
  if (event === 'gone') return 'gone'
  if (event === 'unreadable') return refused(UNREADABLE)
  const dataText = dataTextOf(event)
  const refusal = await check(options, namespace, event.spec.type, dataText)
  if (refusal) return refused(refusal)
  return {
    verdict: { kind: 'accepted', deliveries: targets.length },
    append: targets.length === 0 ? [] : [accept(clock, outline, dataText, targets)],
  }
}

function refused(refusal: Refusal): ValidatedEvent {
  return { verdict: { kind: 'refused', refusal }, append: [] }
}

function accept(
  clock: Clock,
  outline: EventOutline,
  dataText: string,
  targets: readonly DeliveryTarget[],
): AcceptedEvent {
  const name = eventName(outline)
  const { namespace } = outline.metadata
  return acceptEvent(
    { name, namespace, type: outline.spec.type, dataText, acceptedAt: clock.now(), key: name },
    targets,
  )
}

function targetsOf({ spec }: EventOutline, subscribers: readonly Subscriber[]): DeliveryTarget[] {
  return matchEndpoints(spec.type, subscribers).map(({ name, uid }) => ({ name, uid }))
}

async function check(
  options: ValidateEventOptions,
  namespace: string,
  type: string,
  dataText: string,
): Promise<Refusal | undefined> {
  if (!options.organizations.get(namespace) && !(await isOrganization(options.resources, namespace))) {
    const message = `The namespace ${namespace} is no organization: it lacks the label davit.dev/organization=true.`
    return { reason: 'NotAnOrganization', message }
  }
  const entry = options.catalogue.get(type) ?? (await findType(options.resources, type))
  const refusal = refuseEvent({ name: type, known: entry !== undefined }, dataText)
  if (refusal) return inObject(refusal)
  if (!entry) return undefined
  const data = jsonIn(dataText)
  if (data === undefined) return { reason: 'NotJson', message: 'spec.dataText is not JSON' }
  return entry.spec.schema
    ? checkSchema(options.validator, { type, schema: entry.spec.schema }, data.value)
    : undefined
}

/** In the words of a WebhookEvent, whose data can be in one of two fields. */
function inObject({ reason, part, message }: EventRefusal): Refusal {
  const field = part === 'type' ? 'spec.type' : 'data'
  const more = reason === 'UnknownType' ? '; see kubectl get eventtypes' : ''
  return { reason, message: `${field}: ${message}${more}` }
}

/** Made in one go with its first event, the watch may not have shown it: a refusal is for good, so look once more. */
async function findType(resources: ResourceReader, name: string): Promise<EventType | undefined> {
  const raw = await findObject(resources, eventTypes, { name })
  return raw && eventType.safeParse(raw).data
}

/** The same for a namespace that has just got its label. */
async function isOrganization(resources: ResourceReader, name: string): Promise<boolean> {
  const raw = await findObject(resources, namespaces, { name })
  return raw !== undefined && readOrganization(raw) !== undefined
}

function checkSchema(
  validator: SchemaValidator,
  { type, schema }: { type: string; schema: Record<string, unknown> },
  data: unknown,
): Refusal | undefined {
  try {
    const problems = validator.validate(schema, data)
    if (problems.length === 0) return undefined
    const words = problems
      .map(({ pointer, message }) => `${pointer === '' ? '/' : pointer} ${message}`)
      .join('; ')
    return {
      reason: 'SchemaMismatch',
      message: `data does not fit the schema of ${type}: ${words}`.slice(0, 1000),
    }
  } catch (error) {
    const words = error instanceof Error ? error.message : String(error)
    return {
      reason: 'SchemaInvalid',
      message: `the schema of the EventType ${type} cannot be used: ${words}`.slice(0, 1000),
    }
  }
}

async function readEvent(
  resources: ResourceReader,
  { metadata }: EventOutline,
): Promise<WebhookEvent | 'gone' | 'unreadable'> {
  const raw = await findObject(resources, webhookEvents, metadata)
  if (raw?.metadata.uid !== metadata.uid) return 'gone'
  // What was said of it is known from the outline; whatever is said there now, its data is as it was.
  return webhookEvent.safeParse({ ...raw, status: undefined }).data ?? 'unreadable'
}

function dataTextOf({ spec }: WebhookEvent): string {
  return spec.dataText === undefined ? JSON.stringify(spec.data ?? null) : spec.dataText.trim()
}

function jsonIn(text: string): { value: unknown } | undefined {
  try {
    return { value: parseJson(text) }
  } catch {
    return undefined
  }
}

/**
 * Publishing what was made with kubectl: one namespace at a time, in the order of creation. A
 * namespace's events go into the log together, so that their order there is the order of their creation.
 */

export type PublishEventsOptions = ValidateEventOptions & {
  log: EventLog
  /** Told of each event, by the 26 characters of its id, that is about to be appended. */
  appending: (name: string, deliveries: number) => void
  /** Told of each of these when it is in the log. */
  appended: (name: string, version: number) => void
  /** Told of each that is in the log already, and was shown. */
  found: (name: string) => void
  /** An append of it has no answer, and may be shown yet. */
  isUnanswered: (name: string) => boolean
  /** Deliveries that the organization may have more; an event is accepted whole where there is any room. */
  room: number
  /** After so long no other event is looked at, milliseconds. */
  lookMs: number
}

export type DecidedEvent = { event: EventOutline; decision: EventDecision }

const MAX_BATCH_BYTES = 192 * 1024

/**
 * Accepts or refuses as many of `waiting`, from the first on, as fit in one append. What the log holds already is accepted whatever
 * has changed since: a crash may have come between the append and the note in the status.
 * @returns one verdict for each, in order; those that were deleted meanwhile are left out
 * @throws ApiError what may pass by itself; nothing was accepted then, or will be again under the same ids
 */
export async function publishEvents(
  options: PublishEventsOptions,
  namespace: string,
  waiting: readonly EventOutline[],
): Promise<DecidedEvent[]> {
  const { clock } = options
  const subscribers = await listSubscribers(options.resources, namespace)
  const judged: DecidedEvent[] = []
  const batch: AcceptedEvent[] = []
  let bytes = 0
  let { room } = options
  const until = clock.monotonic() + options.lookMs
  const isEnough = () => room <= 0 || (judged.length > 0 && clock.monotonic() > until)
  for (const event of waiting) {
    if (isEnough()) break
    const found = await validateEvent(options, event, subscribers)
    if (found === 'gone') continue
    if (isPremature(options, event, found)) break
    const { verdict, append, isShown } = found
    bytes += sizeOf(append).bytes
    if (batch.length > 0 && bytes > MAX_BATCH_BYTES) break
    judged.push({ event, decision: verdict })
    room -= verdict.kind === 'accepted' ? verdict.deliveries : 0
    batch.push(...append)
    if (isShown) options.found(eventName(event))
  }
  if (batch.length > 0) await append(options, batch)
  return judged
}

/** Whoever would get it has changed since it was appended: it is not said to go to nobody while it may be on its way to them. */
function isPremature(
  { isUnanswered }: PublishEventsOptions,
  event: EventOutline,
  { append, isShown }: ValidatedEvent,
): boolean {
  return append.length === 0 && !isShown && isUnanswered(eventName(event))
}

async function append(options: PublishEventsOptions, batch: readonly AcceptedEvent[]): Promise<void> {
  for (const { event, targets } of batch) options.appending(event.id, targets.length)
  const { version } = await options.log.append(batch)
  for (const { event } of batch) options.appended(event.id, version)
}

/** The endpoints as they are now: a watch may be behind what the same person made a moment ago. */
async function listSubscribers(resources: ResourceReader, namespace: string): Promise<Subscriber[]> {
  const subscribers: Subscriber[] = []
  for await (const raw of listObjects(resources, webhookEndpoints, { namespace })) {
    const { data } = webhookEndpoint.safeParse(raw)
    if (data) subscribers.push(subscriberOf(data, decideState(data).state === 'enabled'))
  }
  return subscribers
}
