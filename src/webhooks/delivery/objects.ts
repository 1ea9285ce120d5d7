/** WebhookDelivery objects: how a delivery is shown, and driven from its first failure on. */

import { formatPosition } from '../../apis/delivery-segment.ts'
import { deliveryObjectName, messageId } from '../../apis/ids.ts'
import { API_VERSION, NO_BACKUP_LABEL, SHARD_LABEL } from '../../apis/meta.ts'
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
import type { Clock } from '../../lib/clock.ts'
import { Semaphore } from '../../lib/semaphore.ts'
import { byteLength, INLINE_PAYLOAD_BYTES } from '../log/codec.ts'
import type { Delivery, InLog } from './queue.ts'
import { isFinal, isSetAside } from './status.ts'

type Resources = ResourceReader & ResourceWriter

/** What became of storing: the object is there; its namespace is ending; or nobody may make it (quota, policy). */
export type StoreResult =
  | { kind: 'stored'; version: string }
  | { kind: 'namespaceGone' }
  | { kind: 'refused'; message: string }

/**
 * Calls about deliveries at a time, of the connections that all share: behind thousands of objects that are to be
 * shown, the log, which all deliveries wait for, would not get one.
 */
const CALLS_AT_A_TIME = 24

/** An object refers to a payload that stays in a segment. */
export type PayloadReferred = (object: ObjectRef, segment: string) => void

export type DeliveryObjectsListener = {
  /** Told before the object's entry in the log can be closed. */
  onReferred?: PayloadReferred
  /** Told of about the bytes that each write adds to the store. */
  onWritten?: (organization: string, bytes: number) => void
}

/** Of an object, whoever makes it. */
const REFUSALS = ['Quota', 'Forbidden', 'Invalid', 'BadRequest', 'TooLarge'] as const
/** An API server that started so long ago knows all roles. */
const ROLES_KNOWN_MS = 60_000
/** An object without its payload and attempts, and an attempt, in the store. */
const OBJECT_BYTES = 1400
const ATTEMPT_BYTES = 150

export class DeliveryObjects {
  readonly #resources: Resources
  readonly #clock: Clock
  readonly #listener: DeliveryObjectsListener
  readonly #slots = new Semaphore({ atOnce: CALLS_AT_A_TIME })

  constructor(resources: Resources, clock: Clock, listener: DeliveryObjectsListener = {}) {
    this.#resources = resources
    this.#clock = clock
    this.#listener = listener
  }

  /** @throws ApiError `NotFound` when it was deleted, and the rest; UnreadableError */
  async read(delivery: Delivery): Promise<WebhookDelivery> {
    const ref = deliveryRef(delivery)
    const raw = await this.#slots.run(() => this.#resources.get(webhookDeliveries, ref), { urgent: true })
    const { data } = webhookDelivery.safeParse(raw)
    if (!data) throw new UnreadableError(webhookDeliveryKind.kind, `${ref.namespace}/${ref.name}`)
    return data
  }

  /** Undefined when it was deleted. @throws ApiError, UnreadableError what may pass by itself */
  async find(delivery: Delivery): Promise<WebhookDelivery | undefined> {
    try {
      return await this.read(delivery)
    } catch (error) {
      if (isApiError(error, 'NotFound')) return undefined
      throw error
    }
  }

  /**
   * Makes the object of an entry of the log and, where something is known, its status. Repeatable: an object
   * that is there already is taken as it is, and its status moves on only if it was behind.
   * @throws ApiError what may pass by itself
   */
  async store(delivery: Delivery, home: InLog, status?: WebhookDeliveryStatus): Promise<StoreResult> {
    try {
      const created = await this.#create(delivery, home)
      if (!isInline(home)) this.#listener.onReferred?.(deliveryRef(delivery), home.segment.segment.name)
      if (status && isBehind(created.status, status)) {
        const patched = await this.#patchStatus(delivery, created.version, status, { urgent: false })
        return { kind: 'stored', version: patched }
      }
      return { kind: 'stored', version: created.version }
    } catch (error) {
      if (isApiError(error, 'Terminating', 'NotFound')) return { kind: 'namespaceGone' }
      if (isApiError(error, 'Forbidden') && error.lacksRight && this.#mayGetRight(home)) throw error
      if (isApiError(error, ...REFUSALS)) {
        return { kind: 'refused', message: error.message }
      }
      throw error
    }
  }

  /** An API server that has just started refuses everything until it has read the roles: that is no word about the object. */
  #mayGetRight(home: InLog): boolean {
    const now = this.#clock.monotonic()
    home.lacksRightSince ??= now
    return now - home.lacksRightSince < ROLES_KNOWN_MS
  }

  /** One status write. @param version that the status was decided on @returns the new version @throws ApiError `Conflict`, `NotFound`, ... */
  writeStatus(delivery: Delivery, version: string, status: WebhookDeliveryStatus): Promise<string> {
    return this.#patchStatus(delivery, version, status, { urgent: true })
  }

  /** @throws ApiError `NotFound` when it is gone already, and the rest */
  async remove(delivery: Delivery): Promise<void> {
    const remove = () => this.#resources.delete(webhookDeliveries, deliveryRef(delivery))
    await this.#slots.run(remove)
  }

  async #patchStatus(
    delivery: Delivery,
    version: string,
    status: WebhookDeliveryStatus,
    how: { urgent: boolean },
  ): Promise<string> {
    // A merge patch leaves out what is absent, so fields that ended are taken away by name.
    const ended = isFinal(status.state) ? { nextAttemptAt: null } : {}
    const patch = { metadata: { resourceVersion: version }, status: { ...ended, ...status } }
    const options = { subresource: 'status', answer: 'metadata' } as const
    const write = () => this.#resources.patch(webhookDeliveries, deliveryRef(delivery), patch, options)
    const written = await this.#slots.run(write, how)
    this.#tellWritten(delivery, status.attempts?.length ?? 0)
    const { resourceVersion = version } = written.metadata
    if (isFinal(status.state)) delivery.endVersion = resourceVersion
    return resourceVersion
  }

  async #create(
    delivery: Delivery,
    home: InLog,
  ): Promise<{ version: string; status?: WebhookDeliveryStatus | undefined }> {
    const mayBeThere = home.objectMayExist === true
    // The call may take effect although its answer, or this shard, is lost.
    home.objectMayExist = true
    try {
      const object = this.#objectOf(delivery, home)
      const create = () => this.#resources.create(webhookDeliveries, object, { answer: 'metadata' })
      const created = await this.#slots.run(create)
      this.#tellWritten(delivery, 0)
      return { version: created.metadata.resourceVersion ?? '' }
    } catch (error) {
      if (isApiError(error, 'AlreadyExists')) return versionOf(await this.read(delivery))
      if (!isApiError(error, ...REFUSALS)) {
        home.unansweredAt = this.#clock.monotonic()
        throw error
      }
      home.objectMayExist = mayBeThere
      // A quota may be full by what an earlier call has made.
      const held = mayBeThere ? await this.find(delivery) : undefined
      if (!held) throw error
      return versionOf(held)
    }
  }

  #tellWritten({ queue, bytes }: Delivery, attempts: number): void {
    this.#listener.onWritten?.(queue.endpoint.namespace, OBJECT_BYTES + bytes + attempts * ATTEMPT_BYTES)
  }

  #objectOf(delivery: Delivery, home: InLog): RawObject {
    const { endpoint } = delivery.queue
    const { event, eventIndex } = home.entry
    const spec: WebhookDeliverySpec = {
      endpoint: endpoint.name,
      endpointUid: endpoint.uid,
      deliveryId: messageId(delivery.name),
      eventType: event.type,
      position: formatPosition(delivery),
      ...(isInline(home)
        ? { payload: event.payload }
        : { payloadRef: { segment: home.segment.segment.name, event: eventIndex } }),
      ...(event.redeliveryOf ? { redeliveryOf: event.redeliveryOf } : {}),
      writtenAt: new Date(this.#clock.now()).toISOString(),
    }
    return {
      apiVersion: API_VERSION,
      kind: webhookDeliveryKind.kind,
      metadata: {
        ...deliveryRef(delivery),
        labels: { [SHARD_LABEL]: String(shardOf(endpoint.uid)), [NO_BACKUP_LABEL]: 'true' },
        ownerReferences: [
          { apiVersion: API_VERSION, kind: webhookEndpointKind.kind, name: endpoint.name, uid: endpoint.uid },
        ],
      },
      spec,
    }
  }
}

function versionOf({ metadata, status }: WebhookDelivery) {
  return { version: metadata.resourceVersion, status }
}

function isInline({ entry }: InLog): boolean {
  return byteLength(entry.event.payload) <= INLINE_PAYLOAD_BYTES
}

/** Of the object that shows it, or would. */
export function deliveryRef(delivery: Delivery): { namespace: string; name: string } {
  const { namespace, uid } = delivery.queue.endpoint
  return { namespace, name: deliveryObjectName(delivery.name, uid) }
}

/** More attempts, an end, or to have been set aside, is further on; an end is never taken back. */
function isBehind(held: WebhookDeliveryStatus | undefined, status: WebhookDeliveryStatus): boolean {
  if (isFinal(held?.state)) return false
  if (isSetAside(status)) return held?.nextAttemptAt === undefined
  return isFinal(status.state) || (status.attemptCount ?? 0) > (held?.attemptCount ?? 0)
}
