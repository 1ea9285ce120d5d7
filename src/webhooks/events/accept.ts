/** Whether one WebhookEvent is accepted, and what is to be appended for it then. */

import { namespaces } from '../../apis/core-kinds.ts'
import type { AcceptedEvent, DeliveryTarget } from '../../apis/delivery-segment.ts'
import type { EventOutline } from '../../apis/event-outline.ts'
import { type EventType, eventType, eventTypes } from '../../apis/event-type.ts'
import { type WebhookEvent, webhookEvent, webhookEvents } from '../../apis/webhook-event.ts'
import type { ResourceReader } from '../../kube/client.ts'
import { findObject } from '../../kube/find-object.ts'
import { type Organizations, readOrganization } from '../../kube/organizations.ts'
import { parseJson } from '../../lib/json.ts'
import type { Clock } from '../../lib/ports-clock.ts'
import type { SchemaValidator } from '../../lib/schema-validator.ts'
import type { EventTypeStore } from '../endpoints/event-types.ts'
import type { DedupeIndex } from '../log/key-index.ts'
import { type EventRefusal, type Refusal, refuseEvent } from './event-check.ts'
import { matchEndpoints, type Subscriber } from './fan-out.ts'
import { acceptEvent } from './plan.ts'
import { eventName } from './store.ts'
import type { EventDecision } from './verdict.ts'

export type ValidateEventOptions = {
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
export type ValidatedEvent = { verdict: EventDecision; append: AcceptedEvent[]; isShown?: true }

/** @throws ApiError what may pass by itself */
export async function validateEvent(
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
