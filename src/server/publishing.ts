import { z } from 'zod'
import { type AcceptedEvent, type DeliveryTarget, MAX_SEGMENT_DELIVERIES } from '../apis/delivery-segment.ts'
import type { EventType } from '../apis/event-type.ts'
import { ENDPOINT_PREFIX, messageId, NAME_ENTROPY_BYTES, sortableName } from '../apis/ids.ts'
import { INSTANT_ALLOWED, isInstant } from '../apis/meta.ts'
import type { WebhookEndpoint } from '../apis/webhook-endpoint.ts'
import { parseJson } from '../lib/json.ts'
import type { SchemaProblem, SchemaValidator } from '../lib/json-schema.ts'
import { counted } from '../lib/text.ts'
import type { Clock, Random } from '../lib/time.ts'
import type { EndpointDirectory } from '../webhooks/endpoints/directory.ts'
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
import type { PublishQuota, QuotaExceeded } from '../webhooks/events/quota.ts'
import { byteLength, openBytes, planSegments } from '../webhooks/log/codec.ts'
import type { Appended, EventLog } from '../webhooks/log/store.ts'
import type { OpenDeliveryIndex } from './delivery-index/delivery-index.ts'
import { EXAMPLE_ID } from './delivery-resource.ts'
import { type EndpointId, type EndpointSources, readEndpoint } from './endpoint-resource.ts'
import { Problem, type ProblemPlace, problemOf, refuseWhileStale } from './http/problems.ts'
import type { Idempotency, KeyMark } from './idempotent-requests.ts'
import type { Keyed } from './objects.ts'
import type { PublishCounts } from './publish-counts.ts'

/**
 * What REST appends to the delivery log: events for every endpoint that subscribes, and pings and redeliveries for one
 * endpoint. The response is sent when the append is durable, and readers see it from then on.
 */

/**
 * @param type name of an EventType @param dataText `data` as JSON text, which reaches the receiver unchanged
 * @param timestamp when it happened, RFC 3339; absent: now
 */
export type Publication = { type: string; dataText: string; timestamp?: string | undefined }

export type Published = {
  /** `msg_...`, the webhook-id of its deliveries. */
  eventId: string
  /** Endpoints that get it. */
  deliveries: number
  replayed: boolean
}

type PublicationRules = {
  clock: Pick<Clock, 'now'>
  catalogue: { get(name: string): EventType | undefined }
  validator: Pick<SchemaValidator, 'validate'>
}

/** @throws Problem invalid */
export function checkPublication(rules: PublicationRules, publication: Publication): void {
  const faults = faultsOf(rules, publication)
  if (faults.length > 0) throw invalid(...faults)
}

/** What makes the event unacceptable; empty if nothing does. */
function faultsOf(
  { catalogue, validator, clock }: PublicationRules,
  { type, dataText, timestamp }: Publication,
): readonly ProblemPlace[] {
  const entry = catalogue.get(type)
  if (timestamp !== undefined && !isInstant(timestamp))
    return [{ pointer: '/timestamp', message: INSTANT_ALLOWED }]
  const happenedAt = timestamp === undefined ? undefined : Date.parse(timestamp)
  const refusal = refuseEvent(
    { name: type, known: entry !== undefined },
    { dataText, happenedAt },
    clock.now(),
  )
  if (refusal) return [{ pointer: `/${refusal.part}`, message: refusal.message }]
  const schema = entry?.spec.schema
  if (!schema) return []
  let data: unknown
  try {
    data = parseJson(dataText)
  } catch {
    return [{ pointer: '/data', message: 'must be valid JSON' }]
  }
  let problems: SchemaProblem[]
  try {
    problems = validator.validate(schema, data)
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    const message = `the schema of EventType ${type} cannot be used (${why}); ask your cluster operator to fix the schema`
    return [{ pointer: '/type', message }]
  }
  return problems.map(({ pointer, message }) => ({ pointer: `/data${pointer}`, message }))
}

export function invalid(...errors: readonly ProblemPlace[]): Problem {
  return new Problem('invalid', { errors: [...errors] })
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
    keys: Pick<Idempotency, 'once' | 'each'>
    /** Why the directory may be out of date, in words; undefined while it is not. */
    behind: () => string | undefined
    clock: Clock
    random: Random
  }

/** An event and where it was appended. */
type Entered = { accepted: AcceptedEvent; place: Appended }

const FULL_RETRY_SECONDS = 5
/** Of all events of a batch together: what one segment of the log holds. */
const MAX_BATCH_DELIVERIES = MAX_SEGMENT_DELIVERIES
/** Of a batch none of which can be accepted. */
const MAX_BATCH_ERRORS = 20

/** The event was accepted, or it is invalid and was not sent. */
export type BatchResult = Published | { errors: readonly ProblemPlace[] }

export type PublishedBatch = {
  /** In the order of the events. */
  results: readonly BatchResult[]
  /** All that was accepted had been accepted before. */
  replayed: boolean
}

/** An event of a batch as it was sent, perhaps without data. */
type BatchEvent = { type: string; dataText: string | undefined; timestamp?: string | undefined }
/** @property part the number of the event in its batch */
type BatchPart = { part: number; mark?: KeyMark }
type AcceptedPart = BatchPart & { accepted: AcceptedEvent }

const ACCEPTED_IN_PART =
  'Davit has accepted only some of the events in the batch. Repeat the request with the same Idempotency-Key: Davit then publishes only the missing events. If you repeat the request without a key, Davit will publish some events twice.'

const MISSING_DATA: ProblemPlace = { pointer: '/data', message: 'is required' }
const NOT_FOUND = { first: undefined, replayed: false }

function isReplayed(result: BatchResult | undefined): boolean {
  return result !== undefined && 'replayed' in result && result.replayed
}

/** All methods @throws Problem, and errors that `problemOf` turns into one. */
export class PublishingService {
  readonly #options: PublishingServiceOptions

  constructor(options: PublishingServiceOptions) {
    this.#options = options
  }

  /** Problems: invalid, intake_full, idempotency_conflict */
  publish(organization: string, publication: Publication, how: Keyed): Promise<Published> {
    const { type, dataText, timestamp } = publication
    const asked = () => [type, dataText, ...(timestamp === undefined ? [] : [timestamp])].join(' ')
    const request = { organization, operation: 'publish', asked }
    return this.#enter(request, how, async (mark) => {
      checkPublication(this.#options, publication)
      refuseWhileStale(this.#options.behind)
      return this.#accept(organization, publication, mark)
    })
  }

  /**
   * Several events, which are stored in their order. A repeat under the same key publishes what an earlier request has not.
   * Problems: invalid (no event can be accepted, or they would make too many deliveries) and those of `publish`
   */
  async publishBatch(
    organization: string,
    publications: readonly BatchEvent[],
    { idempotencyKey: key }: Keyed,
  ): Promise<PublishedBatch> {
    const { keys, index } = this.#options
    const results: BatchResult[] = []
    const entered = new Map<number, Entered>()
    const append = async (parts: readonly BatchPart[], appended: (part: number, id: string) => void) => {
      const accepted = this.#acceptParts(organization, publications, parts, results)
      await this.#appendInOrder(organization, accepted, (part, one) => {
        const { event, targets } = one.accepted
        results[part] = { eventId: messageId(event.id), deliveries: targets.length, replayed: false }
        entered.set(part, one)
        appended(part, event.id)
      })
    }
    if (key === undefined)
      await append(
        publications.map((_, part) => ({ part })),
        () => undefined,
      )
    else {
      const asked = () => JSON.stringify(publications)
      const request = { organization, operation: 'publish-batch', key, asked }
      const found = await keys.each({ ...request, parts: publications.length }, append)
      for (const [part, { first, replayed } = NOT_FOUND] of found.entries())
        if (first) results[part] = { eventId: messageId(first.id), deliveries: first.deliveries, replayed }
    }
    for (const [part, { place, accepted }] of entered)
      if (!isReplayed(results[part])) index.appended(place, [accepted])
    if (results.every((result) => 'errors' in result))
      throw invalid(
        ...results.flatMap((result) => ('errors' in result ? result.errors : [])).slice(0, MAX_BATCH_ERRORS),
      )
    return { results, replayed: results.every((result) => 'errors' in result || result.replayed) }
  }

  /** One `webhook.ping` to that endpoint, whatever it subscribes to. Problems: endpoint_disabled and those of `publish` */
  ping(id: EndpointId, how: Keyed): Promise<Published> {
    const { organization, endpointId } = id
    return this.#enter({ organization, operation: 'ping', asked: () => endpointId }, how, async (mark) => {
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
    const request = { organization, operation: 'redeliver', asked: () => `${endpointId} ${deliveryId}` }
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
    const identity = { namespace, name, uid }
    const segmentOf: typeof index.segmentOf = (of, id) => index.segmentOf(of, id)
    const find = () => findOriginal(this.#options, identity, deliveryId, segmentOf)
    const found = await find()
    if (found || !(await index.appears(identity, deliveryId))) return found
    return await find()
  }

  /** @param make what is to be appended; not called for a repeat */
  async #enter(
    request: { organization: string; operation: string; asked: () => string },
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

  /** @returns those of the parts that are valid; the results of the others are known then */
  #acceptParts(
    organization: string,
    publications: readonly BatchEvent[],
    parts: readonly BatchPart[],
    results: BatchResult[],
  ): AcceptedPart[] {
    refuseWhileStale(this.#options.behind)
    return parts.flatMap((one) => {
      const { part, mark } = one
      const publication = publications[part]
      if (!publication) return []
      const { type, dataText, timestamp } = publication
      const faults =
        dataText === undefined ? [MISSING_DATA] : faultsOf(this.#options, { type, dataText, timestamp })
      if (faults.length === 0 && dataText !== undefined)
        return [{ ...one, accepted: this.#accept(organization, { type, dataText, timestamp }, mark) }]
      const errors = faults.map(({ pointer, message }) => ({ pointer: `/events/${part}${pointer}`, message }))
      results[part] = { errors }
      return []
    })
  }

  /** One append after the other, since concurrent ones have no order. @param appended called for each event that is durable */
  async #appendInOrder(
    organization: string,
    parts: readonly AcceptedPart[],
    appended: (part: number, entered: Entered) => void,
  ): Promise<void> {
    if (parts.length === 0) return
    const { eventLog } = this.#options
    const deliveries = parts.reduce((sum, { accepted }) => sum + accepted.targets.length, 0)
    if (deliveries > MAX_BATCH_DELIVERIES)
      throw invalid({ pointer: '/events', message: tooManyDeliveries(deliveries) })
    const bytes = parts.reduce((sum, { accepted }) => sum + openBytesOf(accepted), 0)
    const ended = this.#reserve(organization, deliveries, bytes)
    let isBegun = false
    try {
      for (const group of planSegments(parts.map((part) => ({ part, events: [part.accepted] })))) {
        const { firstDelivery, ...place } = await eventLog.append(group.flatMap(({ events }) => events))
        isBegun = true
        let before = firstDelivery
        for (const { part } of group) {
          const { accepted } = part
          appended(part.part, { accepted, place: { ...place, firstDelivery: before } })
          before += accepted.targets.length
        }
      }
      ended(true)
    } catch (error) {
      ended(false)
      if (!isBegun) throw error
      // Any other answer might say that nothing was accepted.
      throw new Problem('unavailable', {
        detail: ACCEPTED_IN_PART,
        retryAfter: problemOf(error).retryAfter ?? 1,
        cause: error,
      })
    }
  }

  async #append(accepted: AcceptedEvent, mark?: KeyMark): Promise<Entered> {
    const { eventLog, index } = this.#options
    const ended = this.#reserve(accepted.event.namespace, accepted.targets.length, openBytesOf(accepted))
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

  #reserve(namespace: string, deliveries: number, openBytes: number): (appended: boolean) => void {
    const { quota, counts } = this.#options
    const left = quota.remaining(namespace)
    if (typeof left === 'number') return counts.reserve(namespace, deliveries, openBytes)
    throw new Problem('intake_full', { detail: explain(left), retryAfter: FULL_RETRY_SECONDS })
  }

  /** Call it while the endpoints are up to date: one created through another replica would miss the event. */
  #accept(organization: string, publication: Publication, mark: KeyMark | undefined): AcceptedEvent {
    const targets = this.#options.subscriptions.targetsOf(organization, publication.type)
    return acceptEvent(this.#event(organization, publication, mark), targets)
  }

  #event(namespace: string, { type, dataText, timestamp }: Publication, mark: KeyMark | undefined): NewEvent {
    const happenedAt = timestamp === undefined ? this.#options.clock.now() : Date.parse(timestamp)
    return { name: this.#newName(), namespace, type, dataText, happenedAt, ...mark }
  }

  #newName(): string {
    const { clock, random } = this.#options
    return sortableName(clock.now(), random.bytes(NAME_ENTROPY_BYTES))
  }
}

function openBytesOf({ event, targets }: AcceptedEvent): number {
  return openBytes({ receivers: targets.length, bodyBytes: byteLength(event.payload) })
}

function tooManyDeliveries(deliveries: number): string {
  const [most, count] = [MAX_BATCH_DELIVERIES, deliveries].map((number) => number.toLocaleString('en'))
  return `must result in at most ${most} deliveries, but would result in ${count}; send fewer events in each batch`
}

function refuseDisabled(endpoint: WebhookEndpoint): void {
  if (decideState(endpoint).state === 'disabled') throw new Problem('endpoint_disabled')
}

/** Without figures of other organizations. */
function explain({ reason, used, fullest }: QuotaExceeded): string {
  const refused = 'The event was not accepted:'
  if (reason === 'TooManyWrittenBytes')
    return `${refused} the limit on data written per 10-minute period has been reached. Retry later.`
  const isOpen = reason === 'TooManyUnfinishedBytes'
  // Deliveries to deleted endpoints end by themselves, and the organization cannot make room for others.
  if (!fullest)
    return `${refused} the limit on ${isOpen ? 'the total payload size of unfinished deliveries' : 'the number of unfinished deliveries'} has been reached. Retry later.`
  const id = ENDPOINT_PREFIX + fullest.endpoint.name
  if (!isOpen)
    return `${refused} the organization has ${counted(used, 'unfinished delivery', 'unfinished deliveries')}, ${fullest.size.toLocaleString('en')} of them for the endpoint ${id}. Fix its receiver, or disable or delete the endpoint.`
  // Disabling an endpoint keeps its payloads.
  const advice = fullest.held ? 'Enable or delete the endpoint.' : 'Fix its receiver, or delete the endpoint.'
  return `${refused} the organization's unfinished deliveries take up ${counted(used, 'byte')}, of which ${fullest.bytes.toLocaleString('en')} are for the endpoint ${id}. ${advice}`
}

export const webhookId = z.string().meta({
  description:
    'webhookId is the ID of the queued delivery and of its event. Receivers get it in the webhook-id header.',
  example: EXAMPLE_ID,
})
