import { type AcceptedEvent, type DeliveryTarget, deliverySegments } from '../../apis/delivery-segment.ts'
import { deliveryObjectName, derivedName, ENDPOINT_PREFIX, messageId, nameOfMessage } from '../../apis/ids.ts'
import { webhookDeliveries, webhookDelivery } from '../../apis/webhook-delivery.ts'
import type { WebhookEndpoint } from '../../apis/webhook-endpoint.ts'
import {
  findObject,
  isApiError,
  type RawObject,
  type ResourceReader,
  UnreadableError,
} from '../../kube/client.ts'
import { listObjects } from '../../kube/list.ts'
import type { Clock } from '../../lib/clock.ts'
import type { EndpointDirectory } from '../endpoints/directory.ts'
import type { DedupeIndex } from '../log/dedupe.ts'
import { LOG_PAGE, readLargePayload, readSegment } from '../log/reader.ts'
import type { EventLog, LogDelivery } from '../log/store.ts'
import { acceptEvent, acceptRedelivery, matchEndpoints, subscriberOf } from './plan.ts'

/** The event behind a delivery that is to be delivered again: from its object, or from the log. */

/** `deliveryId` is the `msg_` id of the delivery that is repeated. */
export type Original = { deliveryId: string; type: string; payload: string }

export type OriginalSources = {
  resources: ResourceReader
  /** The operator's namespace. */
  namespace: string
  /**
   * Name of the segment that holds the delivery's event, undefined where none does; absent: the log is searched.
   * @param deliveryId `msg_...`
   */
  segmentOf?: (
    endpoint: { namespace: string; name: string; uid: string },
    deliveryId: string,
  ) => string | undefined
}

/** Undefined when this endpoint has no such delivery (any more). */
export async function findOriginal(
  sources: OriginalSources,
  endpoint: WebhookEndpoint,
  deliveryId: string,
): Promise<Original | undefined> {
  const event = nameOfMessage(deliveryId)
  if (event === undefined) return undefined
  const { namespace = '', name, uid } = endpoint.metadata
  const shown = await readObject(sources, { namespace, name: deliveryObjectName(event, uid) }, uid)
  if (shown) return shown
  if (!sources.segmentOf) return await searchLog(sources, event, uid)
  const segment = sources.segmentOf({ namespace, name, uid }, deliveryId)
  return segment === undefined ? undefined : await readLine(sources, segment, { event, uid })
}

async function readObject(
  { resources, namespace }: OriginalSources,
  ref: { namespace: string; name: string },
  uid: string,
): Promise<Original | undefined> {
  try {
    const { data } = webhookDelivery.safeParse(await resources.get(webhookDeliveries, ref))
    // Somebody else's may have the name.
    if (data?.spec.endpointUid !== uid) return undefined
    const { deliveryId, eventType, payload, payloadRef } = data.spec
    const text =
      payload ?? (payloadRef && (await readLargePayload(resources, namespace, payloadRef, ref.namespace)))
    return text === undefined ? undefined : { deliveryId, type: eventType, payload: text }
  } catch (error) {
    if (isApiError(error, 'NotFound') || error instanceof UnreadableError) return undefined
    throw error
  }
}

/** The event of a delivery, by the 26 characters of its id and the UID of the endpoint. */
type Wanted = { event: string; uid: string }

async function readLine(
  { resources, namespace }: OriginalSources,
  name: string,
  wanted: Wanted,
): Promise<Original | undefined> {
  const raw = await findObject(resources, deliverySegments, { namespace, name })
  return raw && originalIn(raw, wanted)
}

function originalIn(raw: RawObject, { event: id, uid }: Wanted): Original | undefined {
  const found = deliveriesIn(raw).find(({ event, endpoint }) => event.id === id && endpoint.uid === uid)
  return found && { deliveryId: messageId(id), type: found.event.type, payload: found.event.payload }
}

/** None in a segment that cannot be read: the watch of the log tells of it. */
function deliveriesIn(raw: RawObject): readonly LogDelivery[] {
  try {
    return readSegment(raw).deliveries
  } catch {
    return []
  }
}

/** A success of an endpoint that keeps its log in segments has no object. Rare, and bounded by retention. */
async function searchLog(
  { resources, namespace }: OriginalSources,
  event: string,
  uid: string,
): Promise<Original | undefined> {
  for await (const raw of listObjects(resources, deliverySegments, { namespace, limit: LOG_PAGE })) {
    const found = originalIn(raw, { event, uid })
    if (found) return found
  }
  return undefined
}

/** Events that Davit makes itself: pings, redeliveries, and the news that an endpoint was disabled. */

export const PING_TYPE = 'webhook.ping'
export const DISABLED_TYPE = 'webhook.endpoint.disabled'

export type PublisherOptions = {
  log: EventLog
  keys: DedupeIndex
  directory: EndpointDirectory
  clock: Clock
}

/** A request by annotation: its value, and the time that it names. */
export type AnnotationRequest = { value: string; at: number }

export class Publisher {
  readonly #options: PublisherOptions

  constructor(options: PublisherOptions) {
    this.#options = options
  }

  /** Exactly one delivery, to the endpoint itself, whatever its event types. @returns the 26 characters of its id */
  async ping(endpoint: WebhookEndpoint, asked: AnnotationRequest): Promise<string> {
    const { uid, namespace = '', name } = endpoint.metadata
    const id = derivedName(asked.at, `ping ${uid} ${asked.value}`)
    const dataText = JSON.stringify({ endpointId: ENDPOINT_PREFIX + name })
    await this.#append(this.#event(id, namespace, PING_TYPE, dataText), [{ name, uid }])
    return id
  }

  /** The original's type and bytes as a brand-new delivery (interface §4.2 rule 2). @returns the 26 characters of its id */
  async redeliver(endpoint: WebhookEndpoint, original: Original, asked: AnnotationRequest): Promise<string> {
    const { uid, namespace = '', name } = endpoint.metadata
    const id = derivedName(asked.at, `redeliver ${uid} ${asked.value}`)
    if (this.#isInLog(namespace, id)) return id
    const { type, payload, deliveryId } = original
    const redelivery = { name: id, namespace, type, payload, redeliveryOf: deliveryId, key: id }
    await this.#options.log.append([acceptRedelivery(redelivery, { name, uid })])
    return id
  }

  /** Tells the other enabled endpoints of the organization that subscribe to it (interface §3.1). */
  async endpointDisabled(endpoint: WebhookEndpoint, disabledAt: string): Promise<number> {
    const { uid, namespace = '', name } = endpoint.metadata
    const { consecutiveFailures = 0, failingSince } = endpoint.status ?? {}
    const id = derivedName(Date.parse(disabledAt), `disabled ${uid} ${disabledAt}`)
    const data = {
      endpointId: ENDPOINT_PREFIX + name,
      consecutiveFailures,
      failingSince: failingSince ?? disabledAt,
      disabledAt,
    }
    const others = this.#options.directory
      .inNamespace(namespace)
      .filter((view) => view.endpoint.metadata.uid !== uid)
      .map((view) => subscriberOf(view.endpoint, view.enabled))
    const targets = matchEndpoints(DISABLED_TYPE, others)
    if (targets.length > 0)
      await this.#append(this.#event(id, namespace, DISABLED_TYPE, JSON.stringify(data)), targets)
    return targets.length
  }

  #event(name: string, namespace: string, type: string, dataText: string) {
    return { name, namespace, type, dataText, acceptedAt: this.#options.clock.now(), key: name }
  }

  async #append(event: Parameters<typeof acceptEvent>[0], targets: readonly DeliveryTarget[]): Promise<void> {
    // The process before may have ended between the append and the note that it was made.
    if (event.key !== undefined && this.#isInLog(event.namespace, event.key)) return
    const accepted: AcceptedEvent = acceptEvent(
      event,
      targets.map(({ name, uid }) => ({ name, uid })),
    )
    await this.#options.log.append([accepted])
  }

  #isInLog(namespace: string, key: string): boolean {
    return this.#options.keys.has(namespace, key, this.#options.clock.monotonic())
  }
}
