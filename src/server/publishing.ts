import { z } from 'zod'
import type { AcceptedEvent, DeliveryTarget } from '../apis/delivery-segment.ts'
import type { EventType } from '../apis/event-type.ts'
import { ENDPOINT_PREFIX, messageId, NAME_ENTROPY_BYTES, sortableName } from '../apis/ids.ts'
import type { WebhookEndpoint } from '../apis/webhook-endpoint.ts'
import { webhookEventSpec } from '../apis/webhook-event.ts'
import { KeyedSums } from '../lib/fair-queue.ts'
import { parseJson } from '../lib/json.ts'
import type { SchemaProblem, SchemaValidator } from '../lib/json-schema.ts'
import { counted } from '../lib/text.ts'
import type { Clock, Random } from '../lib/time.ts'
import type { EndpointDirectory, EndpointView } from '../webhooks/endpoints/directory.ts'
import { decideState } from '../webhooks/endpoints/plan.ts'
import { findOriginal, type Original, type OriginalSources } from '../webhooks/events/originals.ts'
import {
  acceptEvent,
  acceptRedelivery,
  matchEndpoints,
  type NewEvent,
  refuseEvent,
} from '../webhooks/events/plan.ts'
import { PING_TYPE } from '../webhooks/events/publish.ts'
import type { EndpointBacklog, PublishQuota, QuotaExceeded } from '../webhooks/events/quota.ts'
import { byteLength } from '../webhooks/log/codec.ts'
import type { Appended, EventLog } from '../webhooks/log/store.ts'
import type { OpenDeliveryIndex } from './delivery-index/delivery-index.ts'
import { EXAMPLE_ID } from './delivery-resource.ts'
import { type EndpointId, type EndpointSources, readEndpoint } from './endpoint-resource.ts'
import { Problem, type ProblemPlace, refuseWhileStale } from './http/problems.ts'
import { IDEMPOTENCY_KEY } from './http/request.ts'
import { PUBLISH, type Route, replayed, route } from './http/route.ts'
import type { Idempotency, KeyMark } from './idempotent-requests.ts'
import type { Keyed } from './objects.ts'

/**
 * How many deliveries wait, as the REST server sees it: counted in its index of the log a few times per second, plus what it has
 * appended since.
 */

const COUNTED_EVERY_MS = 250

/** Part of the delivery index. */
type Backlog = Pick<OpenDeliveryIndex, 'progress' | 'openBodies'> & {
  unfinished(): Iterable<{ namespace: string; uid: string; size: number; bytes: number }>
}

type Fullest = { bySize: EndpointBacklog | undefined; byBytes: EndpointBacklog | undefined }

export class PublishCounts {
  readonly #index: Backlog
  readonly #directory: EndpointDirectory
  readonly #clock: Clock
  /** Being appended, by organization. */
  readonly #underWay = new KeyedSums()
  readonly #bytesUnderWay = new KeyedSums()
  #open: ReturnType<OpenDeliveryIndex['openBodies']>
  #countedAt = Number.NEGATIVE_INFINITY
  /** By organization. */
  #counted = new KeyedSums()
  /** The endpoints of each organization with the most waiting deliveries, and with the most bytes. */
  #fullest = new Map<string, Fullest>()

  constructor(index: Backlog, directory: EndpointDirectory, clock: Clock) {
    this.#index = index
    this.#directory = directory
    this.#clock = clock
  }

  get all(): { pending: number } {
    this.#refresh()
    return { pending: this.#counted.total + this.#underWay.total }
  }

  ofOrganization(namespace: string): { pending: number } {
    this.#refresh()
    return { pending: this.#counted.of(namespace) + this.#underWay.of(namespace) }
  }

  /** Bytes of bodies whose deliveries have not ended. While the log is read again they are those of before. */
  get bodies(): { total: number; of: (organization: string) => number } {
    this.#open = this.#index.openBodies() ?? this.#open
    const [open, underWay] = [this.#open, this.#bytesUnderWay]
    return {
      total: (open?.total ?? 0) + underWay.total,
      of: (organization) => (open?.of(organization) ?? 0) + underWay.of(organization),
    }
  }

  /**
   * Counts deliveries that are about to be appended, so that concurrent publishers do not share one quota.
   * @returns the call to make when the append has ended: with true before the index learns of them, which then counts them
   */
  reserve(namespace: string, deliveries: number, bytes: number): (appended: boolean) => void {
    this.#refresh()
    this.#underWay.add(namespace, deliveries)
    this.#bytesUnderWay.add(namespace, bytes)
    return (appended) => {
      this.#underWay.add(namespace, -deliveries)
      this.#bytesUnderWay.add(namespace, -bytes)
      if (!appended) return
      this.#refresh()
      this.#counted.add(namespace, deliveries)
    }
  }

  /**
   * The organization's endpoints with the most waiting deliveries and the most bytes, if any, as of the last count: a new count for each
   * refused publish would cost the other organizations.
   */
  fullest(namespace: string): EndpointBacklog[] {
    this.#refresh()
    const { bySize, byBytes } = this.#fullest.get(namespace) ?? {}
    return [bySize, byBytes].filter((endpoint) => endpoint !== undefined)
  }

  #refresh(): void {
    const now = this.#clock.monotonic()
    if (now - this.#countedAt < COUNTED_EVERY_MS) return
    // The number is not known now; the old one plus our appends is better than none.
    if (this.#index.progress !== undefined) return
    this.#countedAt = now
    this.#counted = new KeyedSums()
    this.#fullest = new Map()
    const known = new Map<string, EndpointView>()
    for (const view of this.#directory.all()) known.set(view.endpoint.metadata.uid, view)
    for (const { namespace, uid, size, bytes } of this.#index.unfinished()) {
      const view = known.get(uid)
      const held = view?.enabled === false
      // Deliveries held for a disabled endpoint do not count (interface S7), but what they keep in the store does.
      if (!held) this.#counted.add(namespace, size)
      // A deleted endpoint has no name.
      if (!view) continue
      const { name } = view.endpoint.metadata
      this.#compare(namespace, { endpoint: { namespace, name, uid }, size, bytes, held })
    }
  }

  #compare(namespace: string, one: EndpointBacklog): void {
    const { bySize, byBytes } = this.#fullest.get(namespace) ?? {}
    this.#fullest.set(namespace, {
      bySize: !one.held && one.size > (bySize?.size ?? 0) ? one : bySize,
      byBytes: one.bytes > (byBytes?.bytes ?? 0) ? one : byBytes,
    })
  }
}

/**
 * What REST appends to the delivery log: events for every endpoint that subscribes, and pings and redeliveries for one
 * endpoint. The response is sent when the append is durable, and readers see it from then on.
 */

/** @param type name of an EventType @param dataText `data` as JSON text, which reaches the receiver unchanged */
export type Publication = { type: string; dataText: string }

export type Published = {
  /** `msg_...`, the webhook-id of its deliveries. */
  eventId: string
  /** Endpoints that get it. */
  deliveries: number
  replayed: boolean
}

type PublicationRules = {
  catalogue: { get(name: string): EventType | undefined }
  validator: SchemaValidator
}

/** @throws Problem invalid */
export function checkPublication(
  { catalogue, validator }: PublicationRules,
  { type, dataText }: Publication,
): void {
  const entry = catalogue.get(type)
  const refusal = refuseEvent({ name: type, known: entry !== undefined }, dataText)
  if (refusal) throw invalid({ pointer: `/${refusal.part}`, message: refusal.message })
  const schema = entry?.spec.schema
  if (!schema) return
  let data: unknown
  try {
    data = parseJson(dataText)
  } catch {
    throw invalid({ pointer: '/data', message: 'must be JSON' })
  }
  let problems: SchemaProblem[]
  try {
    problems = validator.validate(schema, data)
  } catch {
    const message = `the schema of the EventType ${type} is invalid; ask your cluster operator to fix the schema`
    throw invalid({ pointer: '/type', message })
  }
  if (problems.length === 0) return
  throw invalid(...problems.map(({ pointer, message }) => ({ pointer: `/data${pointer}`, message })))
}

function invalid(...errors: ProblemPlace[]): Problem {
  return new Problem('invalid', { errors })
}

/** The endpoints that get an event of a type, cached until an endpoint of the organization changes. */
export class Subscriptions {
  readonly #directory: EndpointDirectory
  /** By organization, then by type. */
  readonly #targets = new Map<string, Map<string, readonly DeliveryTarget[]>>()

  constructor(directory: EndpointDirectory) {
    this.#directory = directory
    const forget = ({ metadata }: WebhookEndpoint) => void this.#targets.delete(metadata.namespace ?? '')
    directory.listen({ changed: ({ endpoint }) => forget(endpoint), removed: forget })
  }

  /** @param type of the catalogue, which bounds the cache */
  targetsOf(namespace: string, type: string): readonly DeliveryTarget[] {
    const types = this.#targets.get(namespace) ?? new Map<string, readonly DeliveryTarget[]>()
    const known = types.get(type)
    if (known) return known
    const endpoints = this.#directory.inNamespace(namespace)
    const targets = matchEndpoints(type, endpoints)
    // An organization without endpoints costs nothing to look up.
    if (endpoints.length > 0) this.#targets.set(namespace, types.set(type, targets))
    return targets
  }
}

export type PublishingServiceOptions = EndpointSources &
  PublicationRules &
  OriginalSources & {
    subscriptions: Subscriptions
    eventLog: EventLog
    /** Learns at once what was appended. */
    index: Pick<OpenDeliveryIndex, 'appears' | 'appended' | 'segmentOf'>
    quota: Pick<PublishQuota, 'remaining'>
    counts: Pick<PublishCounts, 'reserve'>
    keys: Pick<Idempotency, 'once'>
    /** Why the directory may be out of date, in words; undefined while it is not. */
    behind: () => string | undefined
    clock: Clock
    random: Random
  }

/** An event and where it was appended. */
type Entered = { accepted: AcceptedEvent; place: Appended }

const FULL_RETRY_SECONDS = 5

/** All methods @throws Problem, and errors that `problemOf` turns into one. */
export class PublishingService {
  readonly #options: PublishingServiceOptions

  constructor(options: PublishingServiceOptions) {
    this.#options = options
  }

  /** Problems: invalid, intake_full, idempotency_conflict */
  publish(organization: string, publication: Publication, how: Keyed): Promise<Published> {
    const { type, dataText } = publication
    const request = { organization, operation: 'publish', asked: `${type} ${dataText}` }
    return this.#enter(request, how, async (mark) => {
      checkPublication(this.#options, publication)
      // An endpoint created through another replica would miss the event.
      refuseWhileStale(this.#options.behind)
      const targets = this.#options.subscriptions.targetsOf(organization, type)
      return acceptEvent(this.#event(organization, publication, mark), targets)
    })
  }

  /** One `webhook.ping` to that endpoint, whatever it subscribes to. Problems: endpoint_disabled and those of `publish` */
  ping(id: EndpointId, how: Keyed): Promise<Published> {
    const { organization, endpointId } = id
    return this.#enter({ organization, operation: 'ping', asked: endpointId }, how, async (mark) => {
      const { object: endpoint } = await readEndpoint(this.#options, id)
      refuseDisabled(endpoint)
      const { name, uid } = endpoint.metadata
      const dataText = JSON.stringify({ endpointId: ENDPOINT_PREFIX + name })
      return acceptEvent(this.#event(organization, { type: PING_TYPE, dataText }, mark), [{ name, uid }])
    })
  }

  /** The same bytes as a new delivery. Problems: not_found (the delivery, too) and those of `ping` */
  redeliver(id: EndpointId & { deliveryId: string }, how: Keyed): Promise<Published> {
    const { organization, endpointId, deliveryId } = id
    const request = { organization, operation: 'redeliver', asked: `${endpointId} ${deliveryId}` }
    return this.#enter(request, how, async (mark) => {
      const { object: endpoint } = await readEndpoint(this.#options, id)
      const original = await this.#original(endpoint, deliveryId)
      if (!original) throw new Problem('not_found')
      refuseDisabled(endpoint)
      const { type, payload } = original
      const { name, uid } = endpoint.metadata
      const redelivery = { name: this.#newName(), namespace: organization, type, payload, ...mark }
      return acceptRedelivery({ ...redelivery, redeliveryOf: original.deliveryId }, { name, uid })
    })
  }

  async #original(endpoint: WebhookEndpoint, deliveryId: string): Promise<Original | undefined> {
    const { namespace = '', name, uid } = endpoint.metadata
    const { index } = this.#options
    const segmentOf: typeof index.segmentOf = (of, id) => index.segmentOf(of, id)
    const find = () => findOriginal(this.#options, endpoint, deliveryId, segmentOf)
    const found = await find()
    if (found || !(await index.appears({ namespace, name, uid }, deliveryId))) return found
    return await find()
  }

  /** @param make what is to be appended; not called for a repeat */
  async #enter(
    request: { organization: string; operation: string; asked: string },
    { idempotencyKey: key }: Keyed,
    make: (mark?: KeyMark) => Promise<AcceptedEvent>,
  ): Promise<Published> {
    if (key === undefined) {
      const { event, targets } = (await this.#append(await make())).accepted
      return { eventId: messageId(event.id), deliveries: targets.length, replayed: false }
    }
    let entered: Entered | undefined
    const { first, replayed } = await this.#options.keys.once({ ...request, key }, async (mark) => {
      entered = await this.#append(await make(mark), mark)
      return entered.accepted.event.id
    })
    // A second record of the same key is never delivered, so the index does not learn it.
    if (entered && !replayed) this.#options.index.appended(entered.place, [entered.accepted])
    return { eventId: messageId(first.id), deliveries: first.deliveries, replayed }
  }

  async #append(accepted: AcceptedEvent, mark?: KeyMark): Promise<Entered> {
    const { eventLog, index } = this.#options
    const { event, targets } = accepted
    const ended = this.#reserve(event, targets.length)
    try {
      const place = await eventLog.append([accepted])
      ended(true)
      if (!mark) index.appended(place, [accepted])
      return { accepted, place }
    } catch (error) {
      ended(false)
      throw error
    }
  }

  #reserve({ namespace, payload }: AcceptedEvent['event'], deliveries: number): (appended: boolean) => void {
    const { quota, counts } = this.#options
    const left = quota.remaining(namespace)
    // A body is open while one of its deliveries is.
    const openBytes = deliveries === 0 ? 0 : byteLength(payload)
    if (typeof left === 'number') return counts.reserve(namespace, deliveries, openBytes)
    throw new Problem('intake_full', { detail: explain(left), retryAfter: FULL_RETRY_SECONDS })
  }

  #event(namespace: string, { type, dataText }: Publication, mark: KeyMark | undefined): NewEvent {
    const acceptedAt = this.#options.clock.now()
    return { name: this.#newName(), namespace, type, dataText, acceptedAt, ...mark }
  }

  #newName(): string {
    const { clock, random } = this.#options
    return sortableName(clock.now(), random.bytes(NAME_ENTROPY_BYTES))
  }
}

function refuseDisabled(endpoint: WebhookEndpoint): void {
  if (decideState(endpoint).state === 'disabled') throw new Problem('endpoint_disabled')
}

/** Without figures of other organizations. */
function explain({ reason, used, fullest }: QuotaExceeded): string {
  const refused = 'The event was not accepted:'
  if (reason === 'TooMuchWritten')
    return `${refused} the limit on the data written in 10 minutes has been reached. Retry later.`
  const isOpen = reason === 'TooMuchOpen'
  // Deliveries to deleted endpoints end by themselves, and the organization cannot make room for others.
  if (!fullest)
    return `${refused} the limit on ${isOpen ? 'payload bytes of unfinished deliveries' : 'the number of unfinished deliveries'} has been reached. Retry later.`
  const id = ENDPOINT_PREFIX + fullest.endpoint.name
  if (!isOpen)
    return `${refused} the organization has ${counted(used, 'unfinished delivery', 'unfinished deliveries')}, ${fullest.size.toLocaleString('en')} of them for the endpoint ${id}. Fix its receiver, or disable or delete the endpoint.`
  // Disabling an endpoint keeps its payloads.
  const advice = fullest.held ? 'Enable or delete the endpoint.' : 'Fix its receiver, or delete the endpoint.'
  return `${refused} the organization's unfinished deliveries take up ${counted(used, 'byte')}, ${fullest.bytes.toLocaleString('en')} of them for the endpoint ${id}. ${advice}`
}

export const webhookId = z
  .string()
  .meta({ description: 'webhookId is the ID of the queued delivery.', example: EXAMPLE_ID })

const body = z.strictObject({
  type: webhookEventSpec.shape.type.meta({
    description: 'type is the name of an event type.',
    example: 'environment.started',
  }),
  data: z.unknown().meta({
    description: 'data is any JSON. Receivers get it character for character.',
    example: { environmentId: 'env_1' },
  }),
  id: z
    .string()
    .regex(IDEMPOTENCY_KEY, 'must be 1 to 255 visible ASCII characters without spaces')
    .optional()
    .meta({ description: 'id has the same effect as the Idempotency-Key header.', maxLength: 255 }),
})

export function eventRoutes(publishing: PublishingService): Route[] {
  return [
    route({
      id: 'publishEvent',
      method: 'post',
      path: '/events',
      tag: 'Events',
      summary: 'Publish an event',
      description:
        'Queues a delivery for every enabled endpoint that subscribes to the type. The event is durably stored when the response arrives.',
      permission: PUBLISH,
      body,
      success: {
        status: 202,
        description: 'The event is accepted.',
        body: z.object({
          eventId: z.string().meta({
            description: 'eventId is the webhook-id of the deliveries.',
            example: EXAMPLE_ID,
          }),
          deliveries: z
            .int()
            .meta({ description: 'deliveries is the number of endpoints that receive the event.' }),
        }),
      },
      problems: ['idempotency_conflict', 'intake_full'],
      idempotent: true,
      async handle({ organization, body: { type, id }, rawMember, idempotencyKey }) {
        const dataText = rawMember('data')
        if (dataText === undefined) throw invalid({ pointer: '/data', message: 'is required' })
        const key = oneKey(idempotencyKey, id)
        const published = await publishing.publish(organization, { type, dataText }, { idempotencyKey: key })
        const { eventId, deliveries } = published
        return { body: { eventId, deliveries }, ...replayed(published.replayed) }
      },
    }),
  ]
}

/** The `id` in the body is an Idempotency-Key as well. */
function oneKey(header: string | undefined, id: string | undefined): string | undefined {
  if (header !== undefined && id !== undefined && header !== id) {
    throw invalid({
      pointer: '/id',
      message: 'must equal the Idempotency-Key header if both are sent',
    })
  }
  return header ?? id
}
