/** Events that Davit makes itself: pings, redeliveries, and the news that an endpoint was disabled. */
import type { AcceptedEvent, DeliveryTarget } from '../../apis/delivery-segment.ts'
import { ENDPOINT_PREFIX } from '../../apis/identifiers.ts'
import { derivedName } from '../../apis/ids.ts'
import type { WebhookEndpoint } from '../../apis/webhook-endpoint.ts'
import type { Clock } from '../../lib/ports-clock.ts'
import type { EndpointDirectory } from '../endpoints/directory.ts'
import type { DedupeIndex } from '../log/key-index.ts'
import type { EventLog } from '../log/store.ts'
import { matchEndpoints, subscriberOf } from './fan-out.ts'
import { acceptEvent, acceptRedelivery } from './plan.ts'
import type { Original } from './publish.ts'

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
