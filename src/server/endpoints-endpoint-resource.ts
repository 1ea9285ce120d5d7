import { createdAtOf } from '../apis/created-at.ts'
import { ENDPOINT_PREFIX } from '../apis/identifiers.ts'
import type { WebhookEndpoint } from '../apis/webhook-endpoint.ts'
import { etagOf } from '../lib/etag.ts'
import { decideState } from '../webhooks/endpoints/endpoint-state.ts'
import type { EndpointResource, TaggedEndpoint } from './endpoint-resource.ts'

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
