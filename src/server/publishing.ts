/** What REST brings into the delivery log: events, pings and redeliveries. */
import type { Position } from '../apis/position.ts'
import type { EndpointId, Keyed } from './endpoint-resource.ts'

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
