import type { DeliveryIndex } from '../../ports/delivery-index.ts'
import type { Endpoints } from '../../ports/endpoints.ts'
import type { EndpointIdentities, EventTypeCatalogue } from '../../ports/facade.ts'
import type { Publishing } from '../../ports/publishing.ts'
import type { RegistryCredentials } from '../../ports/registry-credentials.ts'
import type { OrganizationSettings } from '../../ports/secrets-settings.ts'
import type { Cursors } from '../cursor.ts'
import type { Route } from '../route.ts'
import { deliveryRoutes } from './deliveries.ts'
import { endpointActionRoutes } from './endpoint-actions.ts'
import { endpointRoutes } from './endpoints.ts'
import { eventTypeRoutes } from './event-types.ts'
import { eventRoutes } from './events.ts'
import { credentialRoutes } from './registry-credentials.ts'
import { settingsRoutes } from './secrets-settings.ts'

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
