import type { RegistryCredentials } from './credential-resource.ts'
import { credentialRoutes } from './credential-routes.ts'
import type { Cursors } from './cursor.ts'
import { deliveryRoutes } from './deliveries.ts'
import type { DeliveryIndex } from './delivery-index/ports-delivery-index.ts'
import { endpointActionRoutes } from './endpoint-actions.ts'
import type { Endpoints } from './endpoint-resource.ts'
import { endpointRoutes } from './endpoint-routes.ts'
import { eventTypeRoutes } from './event-types.ts'
import type { EndpointIdentities, EventTypeCatalogue } from './http/facade.ts'
import type { Route } from './http/route.ts'
import type { OrganizationSettings } from './ports-secrets-settings.ts'
import type { Publishing } from './publishing.ts'
import { eventRoutes } from './routes-events.ts'
import { settingsRoutes } from './routes-secrets-settings.ts'

export type RouteServices = {
  endpoints: Endpoints
  identities: EndpointIdentities
  publishing: Publishing
  deliveries: DeliveryIndex
  catalogue: EventTypeCatalogue
  credentials: RegistryCredentials
  settings: OrganizationSettings
  cursors: Cursors
}

/** Every route there is. The event types come before the endpoints: their path would fit an endpoint's. */
export function allRoutes(services: RouteServices): Route[] {
  const { endpoints, publishing, catalogue, credentials, settings, cursors } = services
  return [
    ...eventTypeRoutes(catalogue, cursors),
    ...endpointRoutes(endpoints, cursors),
    ...endpointActionRoutes(endpoints, publishing),
    ...deliveryRoutes(services),
    ...eventRoutes(publishing),
    ...credentialRoutes(credentials, cursors),
    ...settingsRoutes(settings),
  ]
}
