import type { EventTypeStore } from '../webhooks/endpoints/event-types.ts'
import { type BoxTemplateService, boxTemplateRoutes } from './box-templates.ts'
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
import { publishRoutes } from './publish-routes.ts'
import type { PublishingService } from './publishing.ts'
import { type SecretsSettingsService, settingsRoutes } from './secrets-settings.ts'
import type { EventStreams } from './stream/event-streams.ts'
import { streamRoutes } from './stream-routes.ts'

export type RouteServices = {
  endpoints: EndpointService
  publishing: PublishingService
  deliveries: OpenDeliveryIndex
  events: Pick<EventService, 'list' | 'read'>
  streams: Pick<EventStreams, 'open'>
  catalogue: Pick<EventTypeStore, 'all'>
  credentials: CredentialService
  settings: SecretsSettingsService
  boxTemplates: Pick<BoxTemplateService, 'list' | 'read'>
  cursors: Cursors
}

/** All routes. The event types come before the endpoints, since their path would also match an endpoint's. */
export function allRoutes(services: RouteServices): Route[] {
  const {
    endpoints,
    publishing,
    deliveries,
    events,
    streams,
    catalogue,
    credentials,
    settings,
    boxTemplates,
    cursors,
  } = services
  return [
    ...eventTypeRoutes(catalogue, cursors),
    ...endpointRoutes(endpoints, publishing, cursors),
    ...deliveryRoutes(endpoints, deliveries, publishing, cursors),
    ...publishRoutes(publishing),
    ...eventReadRoutes({ events, endpoints, deliveries }, cursors),
    ...streamRoutes(streams),
    ...credentialRoutes(credentials, cursors),
    ...settingsRoutes(settings),
    ...boxTemplateRoutes(boxTemplates, cursors),
  ]
}
