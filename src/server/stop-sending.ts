/**
 * What comes before the deletion of an endpoint: whoever drives it begins nothing more for it, so that nothing is sent once the deletion is
 * answered. With the object gone there would be nothing left by which a controller could say so.
 */
import { type WebhookEndpoint, webhookEndpoints } from '../apis/webhook-endpoint.ts'
import { isApiError } from '../kube/client.ts'
import {
  annotationsOf,
  isAcknowledged,
  requestTime,
  type StateRequest,
} from '../webhooks/endpoints/endpoint-change.ts'
import { ACKNOWLEDGED_WITHIN_MS, type EndpointsContext } from './endpoint-acknowledgements.ts'
import { parseEndpoint } from './live-endpoint.ts'

type Context = Pick<
  EndpointsContext,
  'resources' | 'directory' | 'acknowledgements' | 'controllers' | 'clock'
>

/** `late`: a controller lives that has not said in time that it has stopped. `asked`: the object has been changed for that. */
export type StopOutcome = { isLate: boolean; isAsked: boolean }

export const NOTHING_TO_STOP: StopOutcome = { isLate: false, isAsked: false }

/**
 * @param resourceVersion in which alone it is to be deleted; absent: in any
 * @throws ApiError `NotFound`, `Conflict` when it is another one by now, and the rest
 */
export async function stopSending(
  ctx: Context,
  endpoint: WebhookEndpoint,
  resourceVersion: string | undefined,
): Promise<StopOutcome> {
  const isQuiet = endpoint.status?.state === 'disabled' || !(await ctx.controllers.anyLives())
  if (isQuiet) return NOTHING_TO_STOP
  try {
    return await ask(ctx, endpoint, resourceVersion)
  } catch (error) {
    // Policies of the cluster may keep Davit from changing what it may delete.
    if (isApiError(error, 'Invalid', 'Forbidden')) return { isLate: true, isAsked: false }
    throw error
  }
}

async function ask(
  ctx: Context,
  endpoint: WebhookEndpoint,
  resourceVersion: string | undefined,
): Promise<StopOutcome> {
  const { namespace = '', name, uid } = endpoint.metadata
  // By a request, whoever manages the spec: it goes anyway.
  const request: StateRequest = { state: 'disabled', at: requestTime(endpoint, ctx.clock.now()) }
  const guard = { uid, ...(resourceVersion === undefined ? {} : { resourceVersion }) }
  const body = { metadata: { ...guard, annotations: annotationsOf(request) } }
  const patched = parseEndpoint(await ctx.resources.patch(webhookEndpoints, { namespace, name }, body))
  ctx.directory.applyRead(patched)
  const generation = patched.metadata.generation ?? 0
  const answer = await ctx.acknowledgements.when(
    { namespace, name, uid },
    (seen) => isAcknowledged(seen, generation, request),
    ACKNOWLEDGED_WITHIN_MS,
  )
  return { isLate: answer === 'late', isAsked: true }
}
