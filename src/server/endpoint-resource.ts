import { createdAtOf, ENDPOINT_PREFIX } from '../apis/ids.ts'
import { DNS_LABEL } from '../apis/meta.ts'
import {
  type DeliveryLogMode,
  type EndpointState,
  type WebhookEndpoint,
  webhookEndpoint,
  webhookEndpointKind,
  webhookEndpoints,
} from '../apis/webhook-endpoint.ts'
import { isApiError, type RawObject, type ResourceReader, UnreadableError } from '../kube/client.ts'
import { etagOf } from '../lib/text.ts'
import type { EndpointDirectory } from '../webhooks/endpoints/directory.ts'
import { decideState } from '../webhooks/endpoints/plan.ts'
import { RefusedError } from './http/problems.ts'

/** What REST does to endpoints (interface §2.3, §4.2). Ids are `whe_...`; one that fits no endpoint is `not_found`. */

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

/** An endpoint as its owner sees it over REST: what is, not what is wanted. */
export function resourceOf(endpoint: WebhookEndpoint): EndpointResource {
  const { metadata, spec, status } = endpoint
  const createdAt = createdAtOf(metadata)
  const { description, url, eventTypes, ordered, deliveryLog, concurrency } = spec
  return {
    endpointId: ENDPOINT_PREFIX + metadata.name,
    url,
    eventTypes,
    ...(description === undefined ? {} : { description }),
    ordered,
    ...stateOf(endpoint),
    consecutiveFailures: status?.consecutiveFailures ?? 0,
    ...(status?.failingSince === undefined ? {} : { failingSince: utc(status.failingSince) }),
    deliveryLog,
    concurrency,
    createdAt,
    updatedAt: status?.updatedAt === undefined ? createdAt : utc(status.updatedAt),
  }
}

export function taggedOf(endpoint: WebhookEndpoint): TaggedEndpoint {
  return { endpoint: resourceOf(endpoint), etag: etagOf(endpoint.metadata) }
}

/** Before anybody has looked at it, what it wants is all there is. */
function stateOf(endpoint: WebhookEndpoint): Pick<EndpointResource, 'status' | 'disabledReason'> {
  const { state, disabledReason } = endpoint.status ?? {}
  const is = state === undefined ? decideState(endpoint) : { state, disabledReason }
  return {
    status: is.state,
    ...(is.disabledReason === undefined ? {} : { disabledReason: is.disabledReason }),
  }
}

function utc(time: string): string {
  return new Date(time).toISOString()
}

/** Endpoints as they are now: whoever made a change a moment ago through another replica sees it here. */

export type EndpointSources = { resources: ResourceReader; directory: EndpointDirectory }

/** @throws RefusedError not_found, also of one that is being deleted; ApiError; UnreadableError */
export async function readEndpoint(from: EndpointSources, id: EndpointId): Promise<WebhookEndpoint> {
  return (await readStored(from, id)).endpoint
}

/** The same, and all of its metadata. */
export async function readStored(
  { resources, directory }: EndpointSources,
  id: EndpointId,
): Promise<{ endpoint: WebhookEndpoint; raw: RawObject }> {
  const raw = await readRaw(resources, id)
  const endpoint = parseEndpoint(raw)
  directory.applyRead(endpoint)
  if (endpoint.metadata.deletionTimestamp !== undefined) throw new RefusedError('not_found')
  return { endpoint, raw }
}

/** As it is stored, whatever is in it, and though it is being deleted. @throws RefusedError not_found; ApiError */
export async function readRaw(
  resources: Pick<ResourceReader, 'get'>,
  { organization, endpointId }: EndpointId,
): Promise<RawObject> {
  const name = nameOfEndpoint(endpointId)
  if (name === undefined) throw new RefusedError('not_found')
  try {
    return await resources.get(webhookEndpoints, { namespace: organization, name })
  } catch (error) {
    throw isApiError(error, 'NotFound') ? new RefusedError('not_found', { cause: error }) : error
  }
}

/** @throws UnreadableError */
export function parseEndpoint(raw: RawObject): WebhookEndpoint {
  const { data } = webhookEndpoint.safeParse(raw)
  if (data) return data
  throw new UnreadableError(webhookEndpointKind.kind, `${raw.metadata.namespace}/${raw.metadata.name}`)
}

/** Undefined when it is no id of an endpoint. */
export function nameOfEndpoint(endpointId: string): string | undefined {
  if (!endpointId.startsWith(ENDPOINT_PREFIX)) return undefined
  const name = endpointId.slice(ENDPOINT_PREFIX.length)
  return DNS_LABEL.test(name) ? name : undefined
}
