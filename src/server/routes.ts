import type { EventTypeStore } from '../webhooks/endpoints/event-types.ts'
import { credentialRoutes } from './credential-routes.ts'
import type { CredentialService } from './credentials.ts'
import type { OpenDeliveryIndex } from './delivery-index/delivery-index.ts'
import { deliveryRoutes } from './delivery-routes.ts'
import { endpointRoutes } from './endpoint-routes.ts'
import type { EndpointService } from './endpoints.ts'
import { eventTypeRoutes } from './event-types.ts'
import { type EventService, eventReadRoutes } from './events.ts'
import type { Route } from './http/route.ts'
import type { Cursors } from './lists.ts'
import { eventRoutes, type PublishingService } from './publishing.ts'
import { type SecretsSettingsService, settingsRoutes } from './secrets-settings.ts'

export type RouteServices = {
  endpoints: EndpointService
  publishing: PublishingService
  deliveries: OpenDeliveryIndex
  events: Pick<EventService, 'read'>
  catalogue: Pick<EventTypeStore, 'all'>
  credentials: CredentialService
  settings: SecretsSettingsService
  cursors: Cursors
}

/** All routes. The event types come before the endpoints, since their path would also match an endpoint's. */
export function allRoutes(services: RouteServices): Route[] {
  const { endpoints, publishing, deliveries, events, catalogue, credentials, settings, cursors } = services
  return [
    ...eventTypeRoutes(catalogue, cursors),
    ...endpointRoutes(endpoints, publishing, cursors),
    ...deliveryRoutes(endpoints, deliveries, publishing, cursors),
    ...eventRoutes(publishing),
    ...eventReadRoutes(events),
    ...credentialRoutes(credentials, cursors),
    ...settingsRoutes(settings),
  ]
}
