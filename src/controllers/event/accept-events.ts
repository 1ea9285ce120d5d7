/**
 * Publishing what was made with kubectl: one namespace at a time, in the order of creation (settled). A
 * namespace's events go into the log together, so that their order there is the order of their creation.
 */
import { namespaces } from '../../api/core-kinds.ts'
import type { AcceptedEvent } from '../../api/delivery-segment.ts'
import type { EventOutline } from '../../api/event-outline.ts'
import { type EventType, eventType, eventTypes } from '../../api/event-type.ts'
import { webhookEndpoint, webhookEndpoints } from '../../api/webhook-endpoint.ts'
import { type WebhookEvent, webhookEvent, webhookEvents } from '../../api/webhook-event.ts'
import { acceptEvent } from '../../domain/accept.ts'
import { decideState } from '../../domain/endpoint-state.ts'
import { type EventRefusal, type Refusal, refuseEvent } from '../../domain/event-check.ts'
import { matchEndpoints, type Subscriber, subscriberOf } from '../../domain/fan-out.ts'
import { sizeOf } from '../../domain/segment.ts'
import type { Clock } from '../../ports/clock.ts'
import type { EventLog } from '../../ports/delivery-log.ts'
import type { ResourceReader } from '../../ports/kubernetes.ts'
import type { SchemaValidator } from '../../ports/schema-validator.ts'
import { everyObject } from '../../runtime/every-object.ts'
import { findObject } from '../../runtime/find-object.ts'
import type { Catalogue } from '../catalogue.ts'
import type { KeyIndex } from '../delivery-log/key-index.ts'
import { type Organizations, readOrganization } from '../organizations.ts'
import { eventName } from './event-book.ts'

export type AcceptEventsOptions = {
  resources: ResourceReader
  organizations: Organizations
  catalogue: Catalogue
  validator: SchemaValidator
  keys: KeyIndex
  log: EventLog
  clock: Clock
  /** Told of each event, by the 26 characters of its id, that is about to be appended. */
  appending: (name: string, deliveries: number) => void
  /** Deliveries that the organization may have more; an event is accepted whole where there is any room. */
  room: number
  /** After so long no other event is looked at, milliseconds. */
  lookMs: number
}

/** `deliveries` is the number of endpoints that get it. */
export type Verdict =
  | { event: EventOutline; kind: 'accepted'; deliveries: number }
  | { event: EventOutline; kind: 'refused'; refusal: Refusal }

const MAX_BATCH_BYTES = 192 * 1024

/** Stored under other rules than today's: it must not hold up those behind it. */
const UNREADABLE: Refusal = {
  reason: 'Unreadable',
  message: 'spec: it does not fit the rules of this version; make a new WebhookEvent',
}

/**
 * Accepts or refuses as many of `waiting`, from the first on, as fit in one append.
 * @returns one verdict for each, in order; those that were deleted meanwhile are left out
 * @throws ApiError what may pass by itself; nothing was accepted then, or will be again under the same ids
 */
export async function acceptEvents(
  options: AcceptEventsOptions,
  namespace: string,
  waiting: readonly EventOutline[],
): Promise<Verdict[]> {
  const subscribers = await listSubscribers(options.resources, namespace)
  const verdicts: Verdict[] = []
  const batch: AcceptedEvent[] = []
  let bytes = 0
  let { room } = options
  const until = options.clock.monotonic() + options.lookMs
  const isEnough = () => room <= 0 || (verdicts.length > 0 && options.clock.monotonic() > until)
  for (const outline of waiting) {
    if (isEnough()) break
    const judged = await judge(options, namespace, outline, subscribers)
    if (judged === 'gone') continue
    if ('refusal' in judged) {
      verdicts.push({ event: outline, kind: 'refused', refusal: judged.refusal })
      continue
    }
    const { event, targets } = judged
    bytes += sizeOf([judged]).bytes
    if (batch.length > 0 && bytes > MAX_BATCH_BYTES) break
    verdicts.push({ event: outline, kind: 'accepted', deliveries: targets.length })
    room -= targets.length
    // A crash may have come between the append and the note in the status.
    if (!options.keys.has(namespace, event.id) && targets.length > 0) batch.push(judged)
  }
  for (const { event, targets } of batch) options.appending(event.id, targets.length)
  if (batch.length > 0) await options.log.append(batch)
  return verdicts
}

async function judge(
  options: AcceptEventsOptions,
  namespace: string,
  outline: EventOutline,
  subscribers: readonly Subscriber[],
): Promise<AcceptedEvent | { refusal: Refusal } | 'gone'> {
  const event = await readEvent(options.resources, outline)
  if (event === 'gone') return 'gone'
  if (event === 'unreadable') return { refusal: UNREADABLE }
  const dataText = dataTextOf(event)
  const refusal = await check(options, namespace, event.spec.type, dataText)
  return refusal ? { refusal } : accept(options.clock, outline, dataText, subscribers)
}

function accept(
  clock: Clock,
  outline: EventOutline,
  dataText: string,
  subscribers: readonly Subscriber[],
): AcceptedEvent {
  const name = eventName(outline)
  const { namespace } = outline.metadata
  const targets = matchEndpoints(outline.spec.type, subscribers).map(({ name, uid }) => ({ name, uid }))
  return acceptEvent(
    { name, namespace, type: outline.spec.type, dataText, acceptedAt: clock.now(), key: name },
    targets,
  )
}

async function check(
  options: AcceptEventsOptions,
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
  const data = parseJson(dataText)
  if (data === undefined) return { reason: 'NotJson', message: 'spec.dataText is not JSON' }
  return entry.spec.schema
    ? checkSchema(options.validator, { type, schema: entry.spec.schema }, data.value)
    : undefined
}

/** In the words of a WebhookEvent, whose data can be in one of two fields. */
function inObject({ reason, part, words }: EventRefusal): Refusal {
  const field = part === 'type' ? 'spec.type' : 'data'
  const more = reason === 'UnknownType' ? '; see kubectl get eventtypes' : ''
  return { reason, message: `${field}: ${words}${more}` }
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

/** The endpoints as they are now: a watch may be behind what the same person made a moment ago. */
async function listSubscribers(resources: ResourceReader, namespace: string): Promise<Subscriber[]> {
  const subscribers: Subscriber[] = []
  for await (const raw of everyObject(resources, webhookEndpoints, { namespace })) {
    const { data } = webhookEndpoint.safeParse(raw)
    if (data) subscribers.push(subscriberOf(data, decideState(data).state === 'enabled'))
  }
  return subscribers
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

function parseJson(text: string): { value: unknown } | undefined {
  try {
    return { value: JSON.parse(text) }
  } catch {
    return undefined
  }
}
