/** What the HTTP surface needs besides the services behind its routes. */
import type { LoggedEndpoint } from '../delivery-index/ports-delivery-index.ts'
import type { EndpointId } from '../endpoint-resource.ts'

export interface KnownOrganizations {
  /** Whether a namespace is there and is an organization. */
  has(name: string): boolean
}

export interface EndpointIdentities {
  /** The endpoint that has the id now, not one that is being deleted. @throws RefusedError not_found, unavailable */
  identify(id: EndpointId): Promise<LoggedEndpoint>
}

/** An entry of the catalogue of event types. */
export type EventTypeEntry = {
  name: string
  description: string
  /** JSON Schema 2020-12 of `data`. */
  schema?: Record<string, unknown> | undefined
  /** Of `data`. */
  example?: unknown
  deprecated: boolean
}

export interface EventTypeCatalogue {
  /** All entries, in any order. */
  all(): readonly EventTypeEntry[]
}

/** What is counted of requests, as facts. Label values are from small closed sets. */
export interface RequestMetrics {
  /** One request was answered. `route`: the operation's id, `none` where no route fits. `seconds` until the answer was complete. */
  answered(route: string, status: number, seconds: number): void
}
