import type { RegistryCredentials } from './credential-resource.ts'
import { credentialRoutes } from './credential-routes.ts'
import { deliveryRoutes } from './deliveries.ts'
import type { DeliveryIndex } from './delivery-index/queries.ts'
import type { Endpoints } from './endpoint-resource.ts'
import { endpointActionRoutes, endpointRoutes } from './endpoint-routes.ts'
import { eventTypeRoutes } from './event-types.ts'
import { eventRoutes, type Publishing } from './events.ts'
import type { EndpointIdentities, EventTypeCatalogue } from './http/auth.ts'
import type { Route } from './http/route.ts'
import type { Cursors } from './schemas.ts'
import { type OrganizationSettings, settingsRoutes } from './secrets-settings.ts'

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
