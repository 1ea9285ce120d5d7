import { formatPosition } from '../../apis/delivery-segment.ts'
import { deliveryObjectName, messageId } from '../../apis/ids.ts'
import { API_VERSION, NO_BACKUP_LABEL, SHARD_LABEL, VIEW_LABEL } from '../../apis/meta.ts'
import {
  type WebhookDelivery,
  type WebhookDeliverySpec,
  type WebhookDeliveryStatus,
  webhookDeliveries,
  webhookDelivery,
  webhookDeliveryKind,
} from '../../apis/webhook-delivery.ts'
import { webhookEndpointKind } from '../../apis/webhook-endpoint.ts'
import { shardOf } from '../../ha/assignment.ts'
import {
  isApiError,
  type ObjectRef,
  type RawObject,
  type ResourceReader,
  type ResourceWriter,
  UnreadableError,
} from '../../kube/client.ts'
import { Semaphore, type Urgency } from '../../lib/semaphore.ts'
import type { Clock } from '../../lib/time.ts'
import { INLINE_PAYLOAD_BYTES } from '../log/codec.ts'
import { objectBytes } from '../log/written-bytes.ts'
import { bodyOf, type Delivery, type InLog, type ObjectState } from './endpoint-queue.ts'
import type { EventBody, Payloads } from './payloads.ts'
import { isFinal } from './plan.ts'

/** WebhookDelivery objects, which show deliveries to users and hold their state from the first failure on. */

type Resources = ResourceReader & ResourceWriter

/** What an object is made of, and whether it is a view, which waits for all that holds the state of a delivery. */
type Stored = { status: WebhookDeliveryStatus | undefined; body: EventBody; isView: boolean }

/** `isUnwritten`: a view whose status is missing. */
type Existing = ObjectState & Pick<WebhookDelivery, 'isUnwritten'>

type Payload = Pick<WebhookDeliverySpec, 'payload' | 'payloadRef'>

export type StoreResult =
  | { kind: 'stored'; object: ObjectState }
  | { kind: 'namespaceGone' }
  /** Its segment was deleted by hand. */
  | { kind: 'payloadLost' }
  | { kind: 'refused'; message: string }

/**
 * All calls share the connections: thousands of objects must not keep the log from getting one. Organizations take turns, and one whose
 * calls hang does not get all slots.
 */
const CALLS_AT_A_TIME = 24

export type DeliveryObjectsListener = {
  /** The object refers to a payload in a segment. Called before its entry in the log can be closed. */
  onReferred?: (object: ObjectRef, segment: string) => void
  /** Called with roughly the bytes that each write adds to the store. */
  onWritten?: (organization: string, bytes: number) => void
}

const REFUSALS = ['Quota', 'Forbidden', 'Invalid', 'BadRequest', 'TooLarge'] as const
/** After so long an API server has read all roles. */
const ROLES_KNOWN_MS = 60_000

export class DeliveryObjects {
  readonly #resources: Resources
  readonly #payloads: Payloads
  readonly #clock: Clock
  readonly #listener: DeliveryObjectsListener
  readonly #slots = new Semaphore({ atOnce: CALLS_AT_A_TIME, reserves: true })

  constructor(
    resources: Resources,
    payloads: Payloads,
    clock: Clock,
    listener: DeliveryObjectsListener = {},
  ) {
    this.#resources = resources
    this.#payloads = payloads
    this.#clock = clock
    this.#listener = listener
  }

  /** @throws ApiError `NotFound` if it was deleted; UnreadableError */
  async read(delivery: Delivery): Promise<WebhookDelivery> {
    const ref = deliveryRef(delivery)
    const how = { urgency: 'urgent', group: ref.namespace } as const
    const raw = await this.#slots.run(() => this.#resources.get(webhookDeliveries, ref), how)
    const { data } = webhookDelivery.safeParse(raw)
    if (!data) throw new UnreadableError(webhookDeliveryKind.kind, `${ref.namespace}/${ref.name}`)
    return data
  }

  async find(delivery: Delivery): Promise<WebhookDelivery | undefined> {
    try {
      return await this.read(delivery)
    } catch (error) {
      if (isApiError(error, 'NotFound')) return undefined
      throw error
    }
  }

  /** Creates the object of an entry, with its status. Repeatable. @throws ApiError if a retry may help */
  async store(delivery: Delivery, storage: InLog, status?: WebhookDeliveryStatus): Promise<StoreResult> {
    return await this.#store(delivery, storage, { status, body: bodyOf(storage), isView: false })
  }

  /** Creates the object of a delivery that the log has as a success, for people. @throws ApiError if a retry may help */
  async storeView(delivery: Delivery, storage: InLog, body: EventBody): Promise<StoreResult> {
    return await this.#store(delivery, storage, { status: storage.status, body, isView: true })
  }

  async #store(delivery: Delivery, storage: InLog, what: Stored): Promise<StoreResult> {
    const { status, body, isView } = what
    try {
      const payload = await this.#payloadOf(storage, body)
      if (!payload) return { kind: 'payloadLost' }
      const created = await this.#create(delivery, storage, { ...payload, isView })
      const { payloadRef } = payload
      if (payloadRef) this.#listener.onReferred?.(deliveryRef(delivery), payloadRef.segment)
      if (!status || !(created.isUnwritten || isBehind(created.status, status)))
        return { kind: 'stored', object: created }
      const version = await this.writeStatus(delivery, created.version, status, urgencyOf(isView))
      return { kind: 'stored', object: { version, status } }
    } catch (error) {
      if (isApiError(error, 'Terminating', 'NotFound')) return { kind: 'namespaceGone' }
      if (isApiError(error, 'Forbidden') && error.lacksRight && this.#mayGetRight(storage)) throw error
      if (isApiError(error, ...REFUSALS)) return { kind: 'refused', message: error.message }
      throw error
    }
  }

  /** An API server that has just started rejects everything until it has read the roles. */
  #mayGetRight(storage: InLog): boolean {
    const now = this.#clock.monotonic()
    storage.lacksRightSince ??= now
    return now - storage.lacksRightSince < ROLES_KNOWN_MS
  }

  /** @param version that the status was decided on @returns the new version @throws ApiError `Conflict`, `NotFound`, ... */
  async writeStatus(
    delivery: Delivery,
    version: string,
    status: WebhookDeliveryStatus,
    urgency: Urgency = 'urgent',
  ): Promise<string> {
    // A merge patch ignores absent fields, so it has to remove this one by name.
    const removed = isFinal(status.state) ? { nextAttemptAt: null } : {}
    const patch = { metadata: { resourceVersion: version }, status: { ...removed, ...status } }
    const options = { subresource: 'status', answer: 'metadata' } as const
    const write = () => this.#resources.patch(webhookDeliveries, deliveryRef(delivery), patch, options)
    const written = await this.#slots.run(write, { urgency, group: delivery.queue.endpoint.namespace })
    this.#reportWrite(delivery, status.attempts?.length ?? 0)
    const { resourceVersion = version } = written.metadata
    if (isFinal(status.state)) delivery.endVersion = resourceVersion
    return resourceVersion
  }

  async remove(delivery: Delivery): Promise<void> {
    const group = delivery.queue.endpoint.namespace
    await this.#slots.run(() => this.#resources.delete(webhookDeliveries, deliveryRef(delivery)), { group })
  }

  async #create(
    delivery: Delivery,
    storage: InLog,
    content: Payload & { isView: boolean },
  ): Promise<Existing> {
    const mayExist = storage.objectMayExist === true
    // The call may take effect even if its response, or the shard, is lost.
    storage.objectMayExist = true
    try {
      const object = this.#newObject(delivery, storage, content)
      const create = () => this.#resources.create(webhookDeliveries, object, { answer: 'metadata' })
      const how = { urgency: urgencyOf(content.isView), group: delivery.queue.endpoint.namespace }
      const created = await this.#slots.run(create, how)
      this.#reportWrite(delivery, 0)
      return { version: created.metadata.resourceVersion ?? '', status: undefined }
    } catch (error) {
      if (isApiError(error, 'AlreadyExists')) return versionOf(await this.read(delivery))
      if (!isApiError(error, ...REFUSALS)) {
        storage.unansweredAt = this.#clock.monotonic()
        throw error
      }
      storage.objectMayExist = mayExist
      // The object of an earlier call may be what fills the quota.
      const existing = mayExist ? await this.find(delivery) : undefined
      if (!existing) throw error
      return versionOf(existing)
    }
  }

  #reportWrite({ queue, bodyBytes }: Delivery, attempts: number): void {
    const inline = bodyBytes > INLINE_PAYLOAD_BYTES ? 0 : bodyBytes
    this.#listener.onWritten?.(queue.endpoint.namespace, objectBytes(inline, attempts))
  }

  /** Its body, or for a large one its place in the log. Undefined if its segment is gone. @throws ApiError; UnreadableError */
  async #payloadOf(storage: InLog, body: EventBody): Promise<Payload | undefined> {
    const { segment, event, bytes } = body
    if (bytes > INLINE_PAYLOAD_BYTES) return { payloadRef: { segment, event, bytes } }
    const read = await this.#payloads.read(body, storage.entry.event.namespace)
    return read && { payload: read.toString('utf8') }
  }

  #newObject(
    delivery: Delivery,
    storage: InLog,
    { isView, ...payload }: Payload & { isView: boolean },
  ): RawObject {
    const { endpoint } = delivery.queue
    const { event } = storage.entry
    const spec: WebhookDeliverySpec = {
      endpoint: endpoint.name,
      endpointUid: endpoint.uid,
      deliveryId: messageId(delivery.name),
      eventType: event.type,
      position: formatPosition(delivery),
      ...payload,
      ...(event.redeliveryOf ? { redeliveryOf: event.redeliveryOf } : {}),
      writtenAt: new Date(this.#clock.now()).toISOString(),
    }
    return {
      apiVersion: API_VERSION,
      kind: webhookDeliveryKind.kind,
      metadata: {
        ...deliveryRef(delivery),
        labels: {
          [SHARD_LABEL]: String(shardOf(endpoint.uid)),
          [NO_BACKUP_LABEL]: 'true',
          ...(isView ? { [VIEW_LABEL]: 'true' } : {}),
        },
        ownerReferences: [
          { apiVersion: API_VERSION, kind: webhookEndpointKind.kind, name: endpoint.name, uid: endpoint.uid },
        ],
      },
      spec,
    }
  }
}

/** Reads and statuses after an attempt are urgent, since a queue waits for them. A new object holds up its own delivery at most. */
function urgencyOf(isView: boolean): Urgency {
  return isView ? 'canWait' : 'normal'
}

function versionOf({ metadata, status, isUnwritten }: WebhookDelivery): Existing {
  return { version: metadata.resourceVersion, status, isUnwritten }
}

export function deliveryRef({ name, queue }: Delivery): { namespace: string; name: string } {
  const { namespace, uid } = queue.endpoint
  return { namespace, name: deliveryObjectName(name, uid) }
}

/** More attempts or an end is later; an end is never taken back. */
function isBehind(current: WebhookDeliveryStatus | undefined, status: WebhookDeliveryStatus): boolean {
  if (isFinal(current?.state)) return false
  return isFinal(status.state) || (status.attemptCount ?? 0) > (current?.attemptCount ?? 0)
}
