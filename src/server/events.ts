import { z } from 'zod'
import type { AcceptedEvent, DeliveryTarget, Position } from '../apis/delivery-segment.ts'
import type { EventType } from '../apis/event-type.ts'
import { ENDPOINT_PREFIX, messageId, NAME_ENTROPY_BYTES, sortableName } from '../apis/ids.ts'
import type { WebhookEndpoint } from '../apis/webhook-endpoint.ts'
import { webhookEventSpec } from '../apis/webhook-event.ts'
import type { Clock, Random } from '../lib/clock.ts'
import { parseJson } from '../lib/json.ts'
import type { SchemaProblem, SchemaValidator } from '../lib/json-schema.ts'
import type { EndpointDirectory } from '../webhooks/endpoints/directory.ts'
import { decideState } from '../webhooks/endpoints/plan.ts'
import {
  acceptEvent,
  acceptRedelivery,
  matchEndpoints,
  type NewEvent,
  refuseEvent,
  subscriberOf,
} from '../webhooks/events/plan.ts'
import { findOriginal, type Original, type OriginalSources, PING_TYPE } from '../webhooks/events/publish.ts'
import type { QuotaExceeded } from '../webhooks/events/quota.ts'
import type { Appended, EventLog } from '../webhooks/log/store.ts'
import type { DeliveryLocator, OwnAppends } from './delivery-index/queries.ts'
import { type EndpointId, type EndpointSources, type Keyed, readEndpoint } from './endpoint-resource.ts'
import { Problem, RefusedError, type RefusedPlace, refuseWhileStale, withRefusals } from './http/problems.ts'
import { IDEMPOTENCY_KEY } from './http/request.ts'
import { PUBLISH, type Route, replayed, route } from './http/route.ts'
import type { IdempotencyKeys, KeyMark } from './idempotency.ts'

/** What REST brings into the delivery log: events, pings and redeliveries. */

export type Publication = {
  /** Name of an EventType. */
  type: string
  /** `data` as JSON text; its characters reach the receiver as they are. */
  dataText: string
}

export type Published = {
  /** `msg_...`, the webhook-id of its deliveries. */
  eventId: string
  /** Endpoints that get it. */
  deliveries: number
  /** Of its first delivery; absent without deliveries. */
  position?: Position
  /** The same request had been answered before. */
  replayed: boolean
}

/** Answered when durable. All @throws RefusedError */
export interface Publishing {
  /** Refuses: invalid, intake_full, idempotency_conflict */
  publish(organization: string, publication: Publication, how: Keyed): Promise<Published>
  /** One `webhook.ping` to that endpoint, whatever its event types. Refuses: endpoint_disabled, intake_full, idempotency_conflict */
  ping(id: EndpointId, how: Keyed): Promise<Published>
  /** The same bytes as a brand-new delivery. Refuses: not_found (the delivery too), endpoint_disabled, intake_full, idempotency_conflict */
  redeliver(id: EndpointId & { deliveryId: string }, how: Keyed): Promise<Published>
}

/** Whether an event may be published over REST, with the places in the request that are wrong. */

type PublicationRules = {
  catalogue: { get(name: string): EventType | undefined }
  validator: SchemaValidator
}

/** @throws RefusedError invalid */
export function checkPublication(rules: PublicationRules, { type, dataText }: Publication): void {
  const entry = rules.catalogue.get(type)
  const refusal = refuseEvent({ name: type, known: entry !== undefined }, dataText)
  if (refusal) throw invalid([{ pointer: `/${refusal.part}`, message: refusal.message }])
  const schema = entry?.spec.schema
  if (!schema) return
  const problems = problemsOf(rules.validator, { type, schema }, parse(dataText))
  if (problems.length > 0) throw invalid(problems)
}

function parse(dataText: string): unknown {
  try {
    return parseJson(dataText)
  } catch {
    throw invalid([{ pointer: '/data', message: 'is not JSON' }])
  }
}

function problemsOf(
  validator: SchemaValidator,
  { type, schema }: { type: string; schema: Record<string, unknown> },
  data: unknown,
): RefusedPlace[] {
  let problems: SchemaProblem[]
  try {
    problems = validator.validate(schema, data)
  } catch {
    return [
      { pointer: '/type', message: `the schema of ${type} cannot be used; whoever runs Davit can mend it` },
    ]
  }
  return problems.map(({ pointer, message }) => ({ pointer: `/data${pointer}`, message }))
}

function invalid(places: readonly RefusedPlace[]): RefusedError {
  return new RefusedError('invalid', { places })
}

/** Which endpoints get an event of a type: kept for as long as no endpoint of the organization changes. */

export class Subscriptions {
  readonly #directory: EndpointDirectory
  /** By organization, then by type. */
  readonly #targets = new Map<string, Map<string, readonly DeliveryTarget[]>>()

  constructor(directory: EndpointDirectory) {
    this.#directory = directory
    const forget = ({ metadata }: WebhookEndpoint) => void this.#targets.delete(metadata.namespace ?? '')
    directory.listen({ changed: ({ endpoint }) => forget(endpoint), removed: forget })
  }

  /** @param type of the catalogue, so that what is kept is bounded */
  targetsOf(namespace: string, type: string): readonly DeliveryTarget[] {
    const types = this.#targets.get(namespace) ?? new Map<string, readonly DeliveryTarget[]>()
    const known = types.get(type)
    if (known) return known
    const subscribers = this.#directory
      .inNamespace(namespace)
      .map(({ endpoint, enabled }) => subscriberOf(endpoint, enabled))
    const targets = matchEndpoints(type, subscribers).map(({ name, uid }) => ({ name, uid }))
    // One without endpoints is found as quickly again.
    if (subscribers.length > 0) this.#targets.set(namespace, types.set(type, targets))
    return targets
  }
}

/**
 * What REST brings into the delivery log: events for all that subscribe, pings and redeliveries for one endpoint.
 * Answered when durable, and readable from then on.
 */

export type PublishingServiceOptions = EndpointSources &
  PublicationRules &
  OriginalSources &
  Pick<DeliveryLocator, 'appears'> & {
    subscriptions: Subscriptions
    eventLog: EventLog
    /** Told at once of what was appended. */
    own: OwnAppends
    room: {
      /** How many deliveries the organization may have more, or why none. */
      of(namespace: string): number | QuotaExceeded
      /** So many are about to be appended. @returns the call to make when that has ended, whether they were */
      reserve(namespace: string, deliveries: number): (appended: boolean) => void
    }
    keys: IdempotencyKeys
    /** Why it may not be known which endpoints there are, in words; undefined while it is. */
    behind: () => string | undefined
    clock: Clock
    random: Random
  }

/** What was appended, and where; nowhere when there was nothing to append. */
type Entered = { accepted: AcceptedEvent; place?: Appended }

const FULL_RETRY_SECONDS = 5

export class PublishingService implements Publishing {
  readonly #options: PublishingServiceOptions

  constructor(options: PublishingServiceOptions) {
    this.#options = options
  }

  publish(organization: string, publication: Publication, how: Keyed): Promise<Published> {
    const asked = `${publication.type} ${publication.dataText}`
    return this.#enter({ organization, operation: 'publish', asked }, how, async (mark) => {
      checkPublication(this.#options, publication)
      // An endpoint that was made through another process would miss it.
      refuseWhileStale('Which endpoints get it', this.#options.behind)
      const targets = this.#options.subscriptions.targetsOf(organization, publication.type)
      return acceptEvent(this.#event(organization, publication, mark), targets)
    })
  }

  ping(id: EndpointId, how: Keyed): Promise<Published> {
    const { organization, endpointId } = id
    return this.#enter({ organization, operation: 'ping', asked: endpointId }, how, async (mark) => {
      const { name, uid } = (await this.#enabledEndpoint(id)).metadata
      const dataText = JSON.stringify({ endpointId: ENDPOINT_PREFIX + name })
      return acceptEvent(this.#event(organization, { type: PING_TYPE, dataText }, mark), [{ name, uid }])
    })
  }

  redeliver(id: EndpointId & { deliveryId: string }, how: Keyed): Promise<Published> {
    const { organization, endpointId, deliveryId } = id
    const asked = `${endpointId} ${deliveryId}`
    return this.#enter({ organization, operation: 'redeliver', asked }, how, async (mark) => {
      const endpoint = await readEndpoint(this.#options, id)
      const original = await this.#original(endpoint, deliveryId)
      if (!original) throw new RefusedError('not_found')
      refuseDisabled(endpoint)
      const { type, payload } = original
      const { name, uid } = endpoint.metadata
      const redelivery = { name: this.#newName(), namespace: organization, type, payload, ...mark }
      return acceptRedelivery({ ...redelivery, redeliveryOf: original.deliveryId }, { name, uid })
    })
  }

  async #original(endpoint: WebhookEndpoint, deliveryId: string): Promise<Original | undefined> {
    const { namespace = '', name, uid } = endpoint.metadata
    const find = () => findOriginal(this.#options, endpoint, deliveryId)
    const found = await find()
    if (found || !(await this.#options.appears({ namespace, name, uid }, deliveryId))) return found
    return await find()
  }

  /** @param make what is to be appended; not called for a repeat */
  async #enter(
    request: { organization: string; operation: string; asked: string },
    { idempotencyKey: key }: Keyed,
    make: (mark?: KeyMark) => Promise<AcceptedEvent>,
  ): Promise<Published> {
    return await withRefusals(async () => {
      if (key === undefined) return publishedOf(await this.#append(await make()))
      let entered: Entered | undefined
      const { first, replayed } = await this.#options.keys.once({ ...request, key }, async (mark) => {
        entered = await this.#append(await make(mark), mark)
        return entered.accepted.event.id
      })
      // What came second in the log is never delivered: nobody is told of it.
      if (entered && !replayed) this.#tell(entered)
      const { id, deliveries, version, index } = first
      const position = deliveries > 0 ? { position: { version, index } } : {}
      return { eventId: messageId(id), deliveries, ...position, replayed }
    })
  }

  async #append(accepted: AcceptedEvent, mark?: KeyMark): Promise<Entered> {
    const { eventLog } = this.#options
    const { event, targets } = accepted
    if (targets.length > 0) {
      const ended = this.#reserveRoom(event.namespace, targets.length)
      try {
        const place = await eventLog.append([accepted])
        ended(true)
        if (!mark) this.#tell({ accepted, place })
        return { accepted, place }
      } catch (error) {
        ended(false)
        throw error
      }
    }
    // Nobody subscribes. Of a key the log has to know all the same, without the body.
    if (mark) await eventLog.append([{ event: { ...event, payload: '' }, targets }])
    return { accepted }
  }

  #tell({ accepted, place }: Entered): void {
    if (place) this.#options.own.appended(place, [accepted])
  }

  #reserveRoom(namespace: string, deliveries: number): (appended: boolean) => void {
    const { room } = this.#options
    const left = room.of(namespace)
    if (typeof left === 'number') return room.reserve(namespace, deliveries)
    throw new RefusedError('intake_full', { detail: wordsOf(left), retryAfter: FULL_RETRY_SECONDS })
  }

  async #enabledEndpoint(id: EndpointId): Promise<WebhookEndpoint> {
    const endpoint = await readEndpoint(this.#options, id)
    refuseDisabled(endpoint)
    return endpoint
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
  if (decideState(endpoint).state === 'disabled') throw new RefusedError('endpoint_disabled')
}

/** Without figures of other organizations. */
function wordsOf({ reason, message, fullest }: QuotaExceeded): string {
  if (reason === 'TooMuchWritten') return 'As many bytes as may be were written in the last ten minutes.'
  return fullest ? `${message} (${ENDPOINT_PREFIX}${fullest.name})` : message
}

function publishedOf({ accepted: { event, targets }, place }: Entered): Published {
  const position = place && { position: { version: place.version, index: place.firstDelivery } }
  return { eventId: messageId(event.id), deliveries: targets.length, ...position, replayed: false }
}

/** Publishing an event. */

const body = z.strictObject({
  type: webhookEventSpec.shape.type.meta({
    description: 'Name of an event type.',
    example: 'environment.started',
  }),
  data: z.unknown().meta({
    description: 'Any JSON; its characters reach the receivers as they came.',
    example: { environmentId: 'env_1' },
  }),
  id: z
    .string()
    .regex(IDEMPOTENCY_KEY, 'must be 1 to 255 visible ASCII characters without spaces')
    .optional()
    .meta({ description: 'Does what Idempotency-Key does.', maxLength: 255 }),
})

export function eventRoutes(publishing: Publishing): Route[] {
  return [
    route({
      id: 'publishEvent',
      method: 'post',
      path: '/events',
      tag: 'Events',
      summary: 'Publish an event',
      description:
        'Queues a delivery for every enabled endpoint that subscribes to the type. Durable when it is answered.',
      permission: PUBLISH,
      body,
      success: {
        status: 202,
        description: 'The event is accepted.',
        body: z.object({
          eventId: z.string().meta({
            description: 'The webhook-id of its deliveries.',
            example: 'msg_3ywq8x2k1m5n7p9r0s4t6v8w2z',
          }),
          deliveries: z.int().meta({ description: 'How many endpoints get it.' }),
        }),
      },
      problems: ['idempotency_conflict', 'intake_full'],
      idempotent: true,
      async handle({ organization, body: { type, id }, rawMember, idempotencyKey }) {
        const dataText = rawMember('data')
        if (dataText === undefined) throw wrong('/data', 'is required')
        const key = oneKey(idempotencyKey, id)
        const published = await publishing.publish(organization, { type, dataText }, { idempotencyKey: key })
        const { eventId, deliveries } = published
        return { body: { eventId, deliveries }, ...replayed(published.replayed) }
      },
    }),
  ]
}

/** A body's `id` is an Idempotency-Key; both, and different, contradict each other. */
function oneKey(header: string | undefined, id: string | undefined): string | undefined {
  if (header !== undefined && id !== undefined && header !== id) {
    throw wrong('/id', 'differs from the Idempotency-Key; send one of them')
  }
  return header ?? id
}

function wrong(pointer: string, message: string): Problem {
  return new Problem('invalid', { errors: [{ pointer, message }] })
}
