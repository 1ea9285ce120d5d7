/** Pings and redeliveries asked for by annotation, and the news of automatic disabling. */

import { readRedeliverRequest, readRequest } from '../../apis/annotations.ts'
import { messageId } from '../../apis/ids.ts'
import { PING_ANNOTATION, REDELIVER_ANNOTATION } from '../../apis/webhook-endpoint.ts'
import type { ResourceReader } from '../../kube/client.ts'
import type { EventRecorder } from '../../kube/event-recorder.ts'
import { findOriginal } from '../events/publish.ts'
import type { Publisher } from '../events/publisher.ts'
import { endpointReference } from './about-endpoint.ts'
import type { EndpointView } from './directory.ts'

export type RequestsOptions = {
  publisher: Publisher
  events: EventRecorder
  resources: ResourceReader
  /** The operator's namespace. */
  namespace: string
}

export class EndpointRequests {
  readonly #options: RequestsOptions

  constructor(options: RequestsOptions) {
    this.#options = options
  }

  /** Acts on what is new. @returns the values that are answered now @throws ApiError what may pass by itself */
  async handle(view: EndpointView): Promise<{ ping?: string; redeliver?: string }> {
    return { ...(await this.#ping(view)), ...(await this.#redeliver(view)) }
  }

  /** @returns the `disabledAt` that has been announced to the other endpoints, if the endpoint was disabled automatically */
  async publishDisabled(view: EndpointView): Promise<string | undefined> {
    const { status } = view.endpoint
    if (status?.disabledReason !== 'ConsecutiveFailures' || status.disabledAt === undefined)
      return status?.announcedAt
    if (status.announcedAt === status.disabledAt) return status.announcedAt
    await this.#options.publisher.endpointDisabled(view.endpoint, status.disabledAt)
    const message = `Disabled automatically after ${status.consecutiveFailures} exhausted deliveries in a row since ${status.failingSince}.`
    this.#options.events.record(endpointReference(view.endpoint.metadata), {
      type: 'Warning',
      reason: 'DisabledAutomatically',
      message,
    })
    return status.disabledAt
  }

  async #ping(view: EndpointView): Promise<{ ping?: string }> {
    const { metadata, status } = view.endpoint
    const request = readRequest(
      metadata.annotations?.[PING_ANNOTATION],
      status?.lastHandled?.ping,
      createdAt(view),
    )
    if (request.kind === 'none') return {}
    if (request.kind === 'invalid')
      this.#warn(view, 'InvalidRequest', `${PING_ANNOTATION}: ${request.message}`)
    if (request.kind === 'new' && !view.enabled)
      this.#warn(view, 'EndpointDisabled', 'A disabled endpoint cannot be pinged; enable it first.')
    if (request.kind === 'new' && view.enabled) {
      const id = await this.#options.publisher.ping(view.endpoint, request)
      this.#note(view, 'Pinged', `webhook.ping is delivered as ${messageId(id)}.`)
    }
    return { ping: request.value }
  }

  async #redeliver(view: EndpointView): Promise<{ redeliver?: string }> {
    const { metadata, status } = view.endpoint
    const value = metadata.annotations?.[REDELIVER_ANNOTATION]
    const request = readRedeliverRequest(value, status?.lastHandled?.redeliver, createdAt(view))
    if (request.handled === undefined) return {}
    for (const item of request.invalid)
      this.#warn(view, 'InvalidRequest', `${REDELIVER_ANNOTATION}: ${item}.`)
    if (request.items.length > 0 && !view.enabled) {
      this.#warn(
        view,
        'EndpointDisabled',
        'Nothing can be redelivered to a disabled endpoint; enable it first.',
      )
    } else {
      for (const item of request.items) await this.#redeliverOne(view, item)
    }
    return { redeliver: request.handled }
  }

  async #redeliverOne(
    view: EndpointView,
    item: { deliveryId: string; at: number; raw: string },
  ): Promise<void> {
    const { resources, namespace, publisher } = this.#options
    const original = await findOriginal({ resources, namespace }, view.endpoint, item.deliveryId)
    if (!original) {
      return this.#warn(
        view,
        'DeliveryNotFound',
        `This endpoint has no delivery ${item.deliveryId} (any more); it cannot be repeated.`,
      )
    }
    const id = await publisher.redeliver(view.endpoint, original, { value: item.raw, at: item.at })
    this.#note(view, 'Redelivered', `${item.deliveryId} is delivered again as ${messageId(id)}.`)
  }

  #warn(view: EndpointView, reason: string, message: string): void {
    this.#options.events.record(endpointReference(view.endpoint.metadata), {
      type: 'Warning',
      reason,
      message,
    })
  }

  #note(view: EndpointView, reason: string, message: string): void {
    this.#options.events.record(endpointReference(view.endpoint.metadata), {
      type: 'Normal',
      reason,
      message,
    })
  }
}

function createdAt(view: EndpointView): number {
  return Date.parse(view.endpoint.metadata.creationTimestamp ?? '') || 0
}
