/**
 * A PATCH over REST as a merge patch of the endpoint: only the fields that were given, so that concurrent ones do not
 * lose each other's. Where the spec is managed elsewhere, pausing and resuming become requests by annotation, and
 * nothing else can be changed (settled, "REST shapes").
 */
import {
  DISABLE_ANNOTATION,
  ENABLE_ANNOTATION,
  type EndpointState,
  type WebhookEndpoint,
  type WebhookEndpointSpec,
} from '../../apis/webhook-endpoint.ts'

type SpecChange = {
  url?: string | undefined
  eventTypes?: readonly string[] | undefined
  description?: string | null | undefined
  ordered?: boolean | undefined
  deliveryLog?: WebhookEndpointSpec['deliveryLog'] | undefined
  concurrency?: number | undefined
}
export type WantedChange = SpecChange & { status?: EndpointState | undefined }

/** A request by annotation that goes with the patch. `at`: milliseconds since 1970. */
export type StateRequest = { state: EndpointState; at: number }

export type ChangePlan =
  /** `fields` would have to be changed, and are somebody else's. */
  | { kind: 'managed'; fields: string[] }
  | { kind: 'patch'; spec?: object; annotations?: Record<string, string>; request?: StateRequest }

/** @param managed whether the spec is managed elsewhere @param now milliseconds since 1970 */
export function planChange(
  endpoint: WebhookEndpoint,
  wanted: WantedChange,
  managed: boolean,
  now: number,
): ChangePlan {
  const { status, ...fields } = wanted
  const given = Object.entries(fields).filter(([, value]) => value !== undefined)
  const request = status && { state: status, at: requestTime(endpoint, now) }
  const asked = request ? { request, annotations: annotationsOf(request) } : {}
  if (managed) {
    const changed = given.filter(([name, value]) => isChange(endpoint, name, value)).map(([name]) => name)
    return changed.length > 0 ? { kind: 'managed', fields: changed } : { kind: 'patch', ...asked }
  }
  const spec = { ...Object.fromEntries(given), ...(status ? { state: status } : {}) }
  return { kind: 'patch', ...(Object.keys(spec).length > 0 ? { spec } : {}), ...asked }
}

/** Whether the controller has looked at the spec, and at the request. @param generation of the patched object */
export function isAcknowledged(
  { status }: Pick<WebhookEndpoint, 'status'>,
  generation: number,
  request: StateRequest | undefined,
): boolean {
  if (!status || status.observedGeneration < generation) return false
  if (!request) return true
  const { enable, disable } = status.lastHandled ?? {}
  const handled = request.state === 'enabled' ? enable : disable
  // A later request may have taken its place before anybody looked.
  return Date.parse(handled ?? '') >= request.at
}

/** By which the controller is asked for a state. */
export function annotationsOf({ state, at }: StateRequest): Record<string, string> {
  const annotation = state === 'enabled' ? ENABLE_ANNOTATION : DISABLE_ANNOTATION
  return { [annotation]: new Date(at).toISOString() }
}

const MAX_AHEAD_MS = 3_600_000

/**
 * A time that makes the request a new one: behind those that were made before, of which a later one would win, and
 * not older than the object, whatever the clocks of the processes say.
 */
export function requestTime({ metadata }: WebhookEndpoint, now: number): number {
  const { annotations = {}, creationTimestamp = '' } = metadata
  const before = [ENABLE_ANNOTATION, DISABLE_ANNOTATION].map((name) => Date.parse(annotations[name] ?? ''))
  const sensible = before.filter((at) => at <= now + MAX_AHEAD_MS)
  return Math.max(now, Date.parse(creationTimestamp) || 0, ...sensible.map((at) => at + 1))
}

function isChange({ spec }: WebhookEndpoint, name: string, value: unknown): boolean {
  const held = (spec as Readonly<Record<string, unknown>>)[name] ?? null
  return JSON.stringify(held) !== JSON.stringify(value)
}
