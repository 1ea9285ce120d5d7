/** Which endpoints get an event of a type: kept for as long as no endpoint of the organization changes. */
import type { DeliveryTarget } from '../apis/delivery-segment.ts'
import type { WebhookEndpoint } from '../apis/webhook-endpoint.ts'
import type { EndpointDirectory } from '../webhooks/endpoints/directory.ts'
import { matchEndpoints, subscriberOf } from '../webhooks/events/fan-out.ts'

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
