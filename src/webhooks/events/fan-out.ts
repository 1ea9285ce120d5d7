/** Which endpoints get an event (interface §6): decided once, at acceptance. */
import type { WebhookEndpoint } from '../../apis/webhook-endpoint.ts'

/** The part of an endpoint that matching looks at. */
export type Subscriber = {
  name: string
  uid: string
  eventTypes: readonly string[]
  enabled: boolean
  deleting: boolean
}

/** Enabled endpoints of the organization that subscribe to `type` or to `*`, in the order of their names. */
export function matchEndpoints(type: string, endpoints: Iterable<Subscriber>): Subscriber[] {
  const matched: Subscriber[] = []
  for (const endpoint of endpoints) {
    if (!endpoint.enabled || endpoint.deleting) continue
    if (endpoint.eventTypes.includes('*') || endpoint.eventTypes.includes(type)) matched.push(endpoint)
  }
  return matched.sort((a, b) => (a.name < b.name ? -1 : 1))
}

/** @param enabled what `decideState` decides for it */
export function subscriberOf(endpoint: WebhookEndpoint, enabled: boolean): Subscriber {
  return {
    name: endpoint.metadata.name,
    uid: endpoint.metadata.uid,
    eventTypes: endpoint.spec.eventTypes,
    enabled,
    deleting: endpoint.metadata.deletionTimestamp !== undefined,
  }
}
