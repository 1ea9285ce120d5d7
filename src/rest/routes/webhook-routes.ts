import type { DeliveryIndex } from '../../ports/delivery-index.ts'
import type { Endpoints } from '../../ports/endpoints.ts'
import type { EndpointIdentities, EventTypeCatalogue } from '../../ports/facade.ts'
import type { Publishing } from '../../ports/publishing.ts'
import type { Cursors } from '../cursor.ts'
import type { Route } from '../route.ts'
import { deliveryRoutes } from './deliveries.ts'
import { endpointActionRoutes } from './endpoint-actions.ts'
import { endpointRoutes } from './endpoints.ts'
import { eventTypeRoutes } from './event-types.ts'
import { eventRoutes } from './events.ts'

export type WebhookServices = {
  endpoints: Endpoints
  identities: EndpointIdentities
  publishing: Publishing
  deliveries: DeliveryIndex
  catalogue: EventTypeCatalogue
  cursors: Cursors
}

/** Everything that concerns webhooks. The event types come first: their path would fit an endpoint's. */
export function webhookRoutes(services: WebhookServices): Route[] {
  const { endpoints, publishing, catalogue, cursors } = services
  return [
    ...eventTypeRoutes(catalogue, cursors),
    ...endpointRoutes(endpoints, cursors),
    ...endpointActionRoutes(endpoints, publishing),
    ...deliveryRoutes(services),
    ...eventRoutes(publishing),
  ]
}
