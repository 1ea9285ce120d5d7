/** Endpoints as they are now: whoever made a change a moment ago through another replica sees it here. */
import { ENDPOINT_PREFIX } from '../apis/identifiers.ts'
import { DNS_LABEL } from '../apis/meta.ts'
import {
  type WebhookEndpoint,
  webhookEndpoint,
  webhookEndpointKind,
  webhookEndpoints,
} from '../apis/webhook-endpoint.ts'
import { isApiError, type RawObject, type ResourceReader } from '../kube/client.ts'
import { UnreadableError } from '../kube/unreadable-error.ts'
import type { EndpointDirectory } from '../webhooks/endpoints/directory.ts'
import type { EndpointId } from './endpoint-resource.ts'
import { RefusedError } from './http/refused-error.ts'

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
