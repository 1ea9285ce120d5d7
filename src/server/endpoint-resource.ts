/** What REST does to endpoints (interface §2.3, §4.2). Ids are `whe_...`; one that fits no endpoint is `not_found`. */
import type { DeliveryLogMode, EndpointState } from '../apis/webhook-endpoint.ts'

/** An endpoint as its owner sees it. Times are ISO 8601, UTC, with milliseconds. */
export type EndpointResource = {
  endpointId: string
  url: string
  eventTypes: string[]
  description?: string
  ordered: boolean
  status: EndpointState
  disabledReason?: 'ConsecutiveFailures' | 'Requested'
  consecutiveFailures: number
  failingSince?: string
  deliveryLog: DeliveryLogMode
  concurrency: number
  createdAt: string
  updatedAt: string
}

export type EndpointDraft = {
  url: string
  eventTypes: string[]
  description?: string | undefined
  ordered?: boolean | undefined
  deliveryLog?: DeliveryLogMode | undefined
  concurrency?: number | undefined
}

/** What is absent stays as it is. */
export type EndpointChange = {
  url?: string | undefined
  /** The full list; it replaces. */
  eventTypes?: string[] | undefined
  /** Null takes it away. */
  description?: string | null | undefined
  ordered?: boolean | undefined
  status?: EndpointState | undefined
  deliveryLog?: DeliveryLogMode | undefined
  concurrency?: number | undefined
}

/** The endpoint and the value of its ETag, quotes included. */
export type TaggedEndpoint = { endpoint: EndpointResource; etag: string }

export type CreatedEndpoint = {
  /** As it was made, in a repeat too. */
  endpoint: EndpointResource
  /** Absent in a repeat, if the endpoint is gone by then. */
  etag?: string
  /** Shown in this one answer; absent in a repeat. */
  secret?: string
  /** The same request had been answered before. */
  replayed: boolean
}

export type RolledSecret = {
  /** Shown in this one answer; absent in a repeat. */
  secret?: string
  overlapSeconds: number
  replayed: boolean
}

/** Value of the header, where it was sent. */
export type Keyed = { idempotencyKey?: string | undefined }

/** Value of If-Match, where it was sent. */
export type Conditional = { ifMatch?: string | undefined }

/** Which endpoint: the organization, and the `whe_` id. */
export type EndpointId = { organization: string; endpointId: string }

/** All @throws RefusedError */
export interface Endpoints {
  /** Usable at once. Refuses: invalid, too_many_endpoints, idempotency_conflict */
  create(organization: string, draft: EndpointDraft, how: Keyed): Promise<CreatedEndpoint>
  /** By name. `after` is the last id that the reader has, also of one deleted since; `next` is the one for the page behind this. */
  list(
    organization: string,
    query: { limit: number; after?: string | undefined },
  ): Promise<{ endpoints: EndpointResource[]; next?: string }>
  get(id: EndpointId): Promise<TaggedEndpoint>
  /** In force when it is answered. Refuses: invalid, managed_elsewhere, precondition_failed, not_acknowledged */
  change(id: EndpointId, change: EndpointChange, how: Conditional): Promise<TaggedEndpoint>
  /** Gone from REST at once. Refuses: precondition_failed */
  remove(id: EndpointId, how: Conditional): Promise<void>
  /** The new secret signs the very next attempt. Refuses: too_many_secrets, idempotency_conflict, not_acknowledged */
  roll(id: EndpointId, roll: { expireOld: boolean }, how: Keyed): Promise<RolledSecret>
}
