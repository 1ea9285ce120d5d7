/** What the operations on endpoints share. */
import type { WebhookEndpoint } from '../apis/webhook-endpoint.ts'
import type { ResourceReader, ResourceWriter } from '../kube/client.ts'
import type { Clock, Random } from '../lib/ports-clock.ts'
import type { Logger } from '../lib/ports-log.ts'
import type { UrlPolicy } from '../net/url-guard.ts'
import type { EndpointDirectory } from '../webhooks/endpoints/directory.ts'
import type { EndpointAcknowledgements } from './acknowledgements.ts'
import type { EndpointReplicas } from './endpoint-replicas.ts'
import { RefusedError } from './http/refused-error.ts'
import type { IdempotencyKeys } from './ports-idempotency.ts'
import type { UndisclosedSecrets } from './unseen-secrets.ts'

export type EndpointsOptions = {
  resources: ResourceReader & ResourceWriter
  /** The operator's namespace. */
  namespace: string
  /** Endpoints of all organizations, from the watch; what is written here is applied at once. */
  directory: EndpointDirectory
  /** Why the directory may not have all of them as they are, in words; undefined while it has. */
  behind: () => string | undefined
  catalogue: { unknown(names: readonly string[]): string[] }
  urlGuard: UrlPolicy
  keys: IdempotencyKeys
  /** Waited for before an endpoint's change is answered. */
  replicas: EndpointReplicas
  /** Whether somebody drives endpoints, who has to stop before one is deleted. @throws ApiError */
  controllers: { anyLives(): Promise<boolean> }
  /** Endpoints that an organization may have. */
  maxEndpoints: number
  clock: Clock
  random: Random
  log: Logger
}

export type EndpointsContext = EndpointsOptions & {
  acknowledgements: EndpointAcknowledgements
  unseen: UndisclosedSecrets
}

/** So long the controller may take to acknowledge a change (settled, "REST shapes"). */
export const ACKNOWLEDGED_WITHIN_MS = 5000
const RETRY_AFTER_SECONDS = 2

/** @param late what to say of it when that takes too long @throws RefusedError not_acknowledged, not_found */
export async function acknowledged(
  { acknowledgements }: EndpointsContext,
  { metadata }: WebhookEndpoint,
  wanted: (endpoint: WebhookEndpoint) => boolean,
  late: { detail?: string } = {},
): Promise<WebhookEndpoint> {
  const { namespace = '', name, uid } = metadata
  const answer = await acknowledgements.when({ namespace, name, uid }, wanted, ACKNOWLEDGED_WITHIN_MS)
  if (answer === 'gone') throw new RefusedError('not_found')
  if (answer === 'late')
    throw new RefusedError('not_acknowledged', { ...late, retryAfter: RETRY_AFTER_SECONDS })
  return answer
}

/** Where a field breaks a rule that a schema cannot say. @throws RefusedError invalid */
export function checkFields(
  { catalogue, urlGuard }: EndpointsOptions,
  given: { url?: string | undefined; eventTypes?: readonly string[] | undefined },
): void {
  const { url, eventTypes = [] } = given
  const verdict = url === undefined ? { ok: true as const } : urlGuard.check(url)
  const unknown = new Set(catalogue.unknown(eventTypes))
  const places = eventTypes.flatMap((type, index) =>
    unknown.has(type) ? [{ pointer: `/eventTypes/${index}`, message: `there is no event type ${type}` }] : [],
  )
  if (!verdict.ok) places.unshift({ pointer: '/url', message: verdict.reason })
  if (places.length > 0) throw new RefusedError('invalid', { places })
}
