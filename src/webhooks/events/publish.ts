import { namespaces } from '../../apis/core-kinds.ts'
import type { AcceptedEvent } from '../../apis/delivery-segment.ts'
import { derivedName, ENDPOINT_PREFIX } from '../../apis/ids.ts'
import { type WebhookEndpoint, webhookEndpoint, webhookEndpoints } from '../../apis/webhook-endpoint.ts'
import {
  type EventOutline,
  type WebhookEvent,
  webhookEvent,
  webhookEvents,
} from '../../apis/webhook-event.ts'
import { findObject, type ResourceReader } from '../../kube/client.ts'
import { listObjects } from '../../kube/list.ts'
import { notAnOrganization, type Organizations, readOrganization } from '../../kube/organizations.ts'
import type { SchemaValidator } from '../../lib/json-schema.ts'
import { trimJson } from '../../lib/strict-json.ts'
import { withPeriod } from '../../lib/text.ts'
import type { Clock } from '../../lib/time.ts'
import type { EndpointDirectory } from '../endpoints/directory.ts'
import { type EventTypeStore, findEventType } from '../endpoints/event-types.ts'
import { decideState } from '../endpoints/plan.ts'
import { sizeOf } from '../log/codec.ts'
import type { DedupeIndex } from '../log/idempotency-keys.ts'
import type { EventLog } from '../log/store.ts'
import type { Original } from './originals.ts'
import {
  acceptEvent,
  acceptRedelivery,
  dataOf,
  type EventData,
  type EventDecision,
  type EventRefusal,
  matchEndpoints,
  type Refusal,
  readData,
  refuseEvent,
  type Subscriber,
} from './plan.ts'
import { eventName, type UnconfirmedAppends } from './store.ts'

/**
 * How the controller publishes: WebhookEvents, and Davit's own events (pings, redeliveries, disabled endpoints). An event that the log
 * has under its key is not appended again, since a crash may have come between the append and the status update.
 */

export type PublishEventsOptions = {
  resources: ResourceReader
  organizations: Organizations
  catalogue: EventTypeStore
  validator: Pick<SchemaValidator, 'validate'>
  keys: DedupeIndex
  unconfirmed: UnconfirmedAppends
  log: EventLog
  clock: Clock
}

export type DecidedEvent = { event: EventOutline; decision: EventDecision }

const MAX_BATCH_BYTES = 192 * 1024

/**
 * Accepts or rejects as many of `waiting`, in order, as fit into one append, so that the log has an organization's events in the
 * order of their creation. An event that is in the log is accepted even if it would be rejected today.
 * @param quota deliveries that the organization may have more; an event is accepted whole if any are left
 * @param maxMs no further event is checked after this time
 * @returns one decision for each, in order, without those that were deleted meanwhile
 * @throws ApiError transient: either nothing was accepted, or the retry accepts it under the same ids
 */
export async function publishEvents(
  options: PublishEventsOptions,
  namespace: string,
  waiting: readonly EventOutline[],
  quota: number,
  maxMs: number,
): Promise<DecidedEvent[]> {
  const { clock, unconfirmed } = options
  const subscribers = await listSubscribers(options.resources, namespace)
  const decided: DecidedEvent[] = []
  const batch: AcceptedEvent[] = []
  let bytes = 0
  let remaining = quota
  const until = clock.monotonic() + maxMs
  const isEnough = () => remaining <= 0 || (decided.length > 0 && clock.monotonic() > until)
  for (const event of waiting) {
    if (isEnough()) break
    const found = await validateEvent(options, event, subscribers)
    if (found === 'gone') continue
    if (isPremature(options, event, found)) break
    const { decision, append: accepted, isInLog } = found
    bytes += sizeOf(accepted).bytes
    if (batch.length > 0 && bytes > MAX_BATCH_BYTES) break
    decided.push({ event, decision })
    remaining -= decision.kind === 'accepted' ? decision.deliveries : 0
    batch.push(...accepted)
    if (isInLog) unconfirmed.foundInLog(eventName(event), namespace)
  }
  if (batch.length > 0) await append(options, namespace, batch)
  return decided
}

/** Its subscribers may have changed since an unanswered append: do not report "no receivers" while it may be delivered. */
function isPremature(
  { unconfirmed }: PublishEventsOptions,
  event: EventOutline,
  { append, isInLog }: ValidatedEvent,
): boolean {
  const hasNoTargets = append.every(({ targets }) => targets.length === 0)
  return hasNoTargets && !isInLog && unconfirmed.isUnanswered(eventName(event))
}

async function append(
  { log, unconfirmed }: PublishEventsOptions,
  namespace: string,
  batch: readonly AcceptedEvent[],
): Promise<void> {
  for (const { event, targets } of batch) unconfirmed.appending(event.id, namespace, targets.length)
  const { version } = await log.append(batch)
  for (const { event } of batch) unconfirmed.appended(event.id, version)
}

/** From the API server: a watch may be behind what the same user created a moment ago. */
async function listSubscribers(resources: ResourceReader, namespace: string): Promise<Subscriber[]> {
  const subscribers: Subscriber[] = []
  for await (const raw of listObjects(resources, webhookEndpoints, { namespace })) {
    const { data } = webhookEndpoint.safeParse(raw)
    if (data) subscribers.push({ endpoint: data, enabled: decideState(data).state === 'enabled' })
  }
  return subscribers
}

/** `append` has at most one event. */
type ValidatedEvent = { decision: EventDecision; append: AcceptedEvent[]; isInLog?: true }

/** Stored under the rules of another version; it must not block those behind it. */
const UNREADABLE: Refusal = {
  reason: 'Unreadable',
  message: 'The spec is not valid in this version of Davit. Create a new WebhookEvent.',
}

/** @throws ApiError transient */
async function validateEvent(
  options: PublishEventsOptions,
  outline: EventOutline,
  subscribers: readonly Subscriber[],
): Promise<ValidatedEvent | 'gone'> {
  const { clock, keys, resources } = options
  const { namespace } = outline.metadata
  const { type } = outline.spec
  const name = eventName(outline)
  const deliveries = keys.receiversOf(namespace, name, clock.monotonic())
  if (deliveries !== undefined)
    return { decision: { kind: 'accepted', deliveries }, append: [], isInLog: true }
  const event = await readEvent(resources, outline)
  if (event === 'gone') return 'gone'
  if (event === 'unreadable') return rejected(UNREADABLE)
  const data = dataOf(event.spec)
  if ('reason' in data) return rejected(data)
  const { timestamp } = event.spec
  const happenedAt = timestamp === undefined ? undefined : Date.parse(timestamp)
  const dataText = trimJson(data.text)
  const refusal = await check(options, namespace, event.spec.type, { data, dataText, happenedAt })
  if (refusal) return rejected(refusal)
  const targets = matchEndpoints(type, subscribers)
  const accepted = { name, namespace, type, dataText, happenedAt: happenedAt ?? clock.now(), key: name }
  return {
    decision: { kind: 'accepted', deliveries: targets.length },
    append: [acceptEvent(accepted, targets)],
  }
}

function rejected(refusal: Refusal): ValidatedEvent {
  return { decision: { kind: 'refused', refusal }, append: [] }
}

async function readEvent(
  resources: ResourceReader,
  { metadata }: EventOutline,
): Promise<WebhookEvent | 'gone' | 'unreadable'> {
  const raw = await findObject(resources, webhookEvents, metadata)
  if (raw?.metadata.uid !== metadata.uid) return 'gone'
  // The status is known from the outline, and an unreadable one does not matter.
  return webhookEvent.safeParse({ ...raw, status: undefined }).data ?? 'unreadable'
}

async function check(
  { resources, organizations, catalogue, validator, clock }: PublishEventsOptions,
  namespace: string,
  type: string,
  content: { data: EventData; dataText: string; happenedAt: number | undefined },
): Promise<Refusal | undefined> {
  if (!organizations.get(namespace) && !(await isOrganization(resources, namespace)))
    return notAnOrganization(namespace)
  // For the same reason as in `isOrganization`.
  const entry = catalogue.get(type) ?? (await findEventType(resources, type))
  const refusal = refuseEvent({ name: type, known: entry !== undefined }, content, clock.now())
  if (refusal) return { reason: refusal.reason, message: sentenceOf(refusal) }
  if (!entry) return undefined
  const read = readData(content.data)
  if (read.refusal) return read.refusal
  return entry.spec.schema && checkSchema(validator, type, entry.spec.schema, read.value)
}

/** For a condition. */
function sentenceOf({ reason, part, message }: EventRefusal): string {
  const sentence =
    part === 'type' ? `${message.charAt(0).toUpperCase()}${message.slice(1)}.` : `The ${part} ${message}.`
  return reason === 'UnknownType' ? `${sentence} To list event types, run: kubectl get eventtypes` : sentence
}

/** The watch may not have returned a namespace that was labeled with its first event, and a rejection is final: so read it again. */
async function isOrganization(resources: ResourceReader, name: string): Promise<boolean> {
  const raw = await findObject(resources, namespaces, { name })
  return raw !== undefined && readOrganization(raw) !== undefined
}

/** Of a message about a schema. */
const MAX_MESSAGE = 999

function checkSchema(
  validator: Pick<SchemaValidator, 'validate'>,
  type: string,
  schema: Record<string, unknown>,
  data: unknown,
): Refusal | undefined {
  try {
    const problems = validator.validate(schema, data)
    if (problems.length === 0) return undefined
    const list = problems
      .map(({ pointer, message }) => `${pointer === '' ? '(root)' : pointer} ${message}`)
      .join('; ')
    const message = `The data does not match the schema of EventType ${type}: ${list}`
    return { reason: 'SchemaMismatch', message: withPeriod(message.slice(0, MAX_MESSAGE)) }
  } catch (error) {
    const cause = error instanceof Error ? error.message : String(error)
    const message = `The schema of EventType ${type} cannot be used: ${cause}`
    return { reason: 'SchemaInvalid', message: withPeriod(message.slice(0, MAX_MESSAGE)) }
  }
}

export const PING_TYPE = 'webhook.ping'
export const DISABLED_TYPE = 'webhook.endpoint.disabled'

type PublisherOptions = {
  log: EventLog
  keys: DedupeIndex
  directory: EndpointDirectory
  clock: Clock
}

/** A request by annotation: its value, and the time in it. */
export type AnnotationRequest = { value: string; at: number }

/** Publishes Davit's own events. Ids are derived from their cause, so that a retry after a crash has the same. */
export class Publisher {
  readonly #options: PublisherOptions

  constructor(options: PublisherOptions) {
    this.#options = options
  }

  /** One delivery to this endpoint, whatever its event types. @returns the 26 characters of its id */
  async ping(endpoint: WebhookEndpoint, request: AnnotationRequest): Promise<string> {
    const { uid, namespace = '', name } = endpoint.metadata
    const id = derivedName(request.at, `ping ${uid} ${request.value}`)
    const dataText = JSON.stringify({ endpointId: ENDPOINT_PREFIX + name })
    const happenedAt = this.#options.clock.now()
    const event = { name: id, namespace, type: PING_TYPE, dataText, happenedAt, key: id }
    await this.#append(acceptEvent(event, [{ name, uid }]))
    return id
  }

  /** The original's type and bytes as a new delivery (interface §4.2 rule 2). @returns the 26 characters of its id */
  async redeliver(
    endpoint: WebhookEndpoint,
    original: Original,
    request: AnnotationRequest,
  ): Promise<string> {
    const { uid, namespace = '', name } = endpoint.metadata
    const id = derivedName(request.at, `redeliver ${uid} ${request.value}`)
    const { type, payload, deliveryId } = original
    const redelivery = { name: id, namespace, type, payload, redeliveryOf: deliveryId, key: id }
    await this.#append(acceptRedelivery(redelivery, { name, uid }))
    return id
  }

  /** Notifies the organization's other enabled endpoints that subscribe to it (interface §3.1). @returns their number */
  async endpointDisabled(endpoint: WebhookEndpoint, disabledAt: string): Promise<number> {
    const { uid, namespace = '', name } = endpoint.metadata
    const { consecutiveFailures = 0, failingSince = disabledAt } = endpoint.status ?? {}
    const id = derivedName(Date.parse(disabledAt), `disabled ${uid} ${disabledAt}`)
    const data = { endpointId: ENDPOINT_PREFIX + name, consecutiveFailures, failingSince, disabledAt }
    const others = this.#options.directory
      .inNamespace(namespace)
      .filter((view) => view.endpoint.metadata.uid !== uid)
    const targets = matchEndpoints(DISABLED_TYPE, others)
    if (targets.length === 0) return 0
    const dataText = JSON.stringify(data)
    const happenedAt = this.#options.clock.now()
    const event = { name: id, namespace, type: DISABLED_TYPE, dataText, happenedAt, key: id }
    await this.#append(acceptEvent(event, targets))
    return targets.length
  }

  async #append(accepted: AcceptedEvent): Promise<void> {
    const { keys, clock, log } = this.#options
    const { namespace, id } = accepted.event
    if (keys.receiversOf(namespace, id, clock.monotonic()) === undefined) await log.append([accepted])
  }
}
