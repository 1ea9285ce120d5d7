/**
 * What REST brings into the delivery log: events for all that subscribe, pings and redeliveries for one endpoint.
 * Answered when durable, and readable from then on.
 */
import type { AcceptedEvent } from '../apis/delivery-segment.ts'
import { ENDPOINT_PREFIX } from '../apis/identifiers.ts'
import { messageId, NAME_ENTROPY_BYTES, sortableName } from '../apis/ids.ts'
import type { WebhookEndpoint } from '../apis/webhook-endpoint.ts'
import type { Clock, Random } from '../lib/ports-clock.ts'
import { decideState } from '../webhooks/endpoints/endpoint-state.ts'
import { acceptEvent, acceptRedelivery, type NewEvent } from '../webhooks/events/plan.ts'
import { findOriginal, type Original, type OriginalSources } from '../webhooks/events/publish.ts'
import { PING_TYPE } from '../webhooks/events/publisher.ts'
import type { QuotaExceeded } from '../webhooks/events/quota.ts'
import type { Appended, EventLog } from '../webhooks/log/store.ts'
import { checkPublication, type PublicationRules } from './check-publication.ts'
import type { DeliveryPlaces, OwnAppends } from './delivery-index/ports-delivery-index.ts'
import type { EndpointId, Keyed } from './endpoint-resource.ts'
import { withRefusals } from './http/refusals.ts'
import { refuseWhileStale } from './http/refuse-behind.ts'
import { RefusedError } from './http/refused-error.ts'
import { type EndpointSources, readEndpoint } from './live-endpoint.ts'
import type { IdempotencyKeys, KeyMark } from './ports-idempotency.ts'
import type { Publication, Published, Publishing } from './publishing.ts'
import type { Subscriptions } from './subscriptions.ts'

export type PublishingServiceOptions = EndpointSources &
  PublicationRules &
  OriginalSources &
  Pick<DeliveryPlaces, 'appears'> & {
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
