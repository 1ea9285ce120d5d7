import { leases, leaseTimes, MAX_LEASES, REPLICA_LABEL } from '../apis/core-kinds.ts'
import type { ObjectMeta } from '../apis/meta.ts'
import { type WebhookEndpoint, webhookEndpoint, webhookEndpoints } from '../apis/webhook-endpoint.ts'
import { isApiError, type RawObject, type ResourceReader } from '../kube/client.ts'
import type { Clock } from '../lib/time.ts'
import { annotationsOf, isAcknowledged, requestTime, type StateRequest } from '../webhooks/endpoints/plan.ts'
import { ACKNOWLEDGED_WITHIN_MS, type EndpointsContext } from './endpoint-acknowledgements.ts'
import { ENDPOINT, type EndpointId, endpointRef } from './endpoint-resource.ts'
import { Problem } from './http/problems.ts'
import {
  type Conditional,
  checkDeletable,
  type NamespacedRef,
  notFoundOr,
  parseStored,
  readRaw,
  retryOnConflict,
} from './objects.ts'

/**
 * Deletes an endpoint. The controller disables it first, so that nothing is sent once the deletion is answered: without the
 * object a controller could not acknowledge that.
 */

type Context = Pick<
  EndpointsContext,
  'resources' | 'directory' | 'replicas' | 'acknowledgements' | 'controllers' | 'clock'
>

const STILL_SENT =
  'It is deleted. A controller that does not answer may still send what it had of it, until it sees that.'

/** Works for an invalid endpoint, too: only the metadata is needed. */
export async function removeEndpoint(ctx: Context, id: EndpointId, how: Conditional): Promise<void> {
  await retryOnConflict(async () => {
    const raw = await readDeletable(ctx, endpointRef(id))
    const metadata = checkDeletable(raw, how)
    try {
      await remove(ctx, raw, metadata, how.ifMatch === undefined ? undefined : metadata.resourceVersion)
    } catch (error) {
      throw notFoundOr(error)
    }
  })
}

/** A client that repeats a deletion gets `not_found` only when all replicas know that the endpoint is gone. */
async function readDeletable({ resources, replicas }: Context, ref: NamespacedRef): Promise<RawObject> {
  try {
    return await readRaw(resources, webhookEndpoints, ref)
  } catch (error) {
    if (error instanceof Problem) await replicas.untilEarlierRemovalKnown(ref)
    throw error
  }
}

/** @param resourceVersion the only version that may be deleted; undefined: any */
async function remove(
  ctx: Context,
  raw: RawObject,
  { namespace = '', name, uid }: ObjectMeta,
  resourceVersion: string | undefined,
): Promise<void> {
  // An invalid endpoint gets no deliveries.
  const { data: endpoint } = webhookEndpoint.safeParse(raw)
  const { isLate, isAsked } = endpoint ? await stopSending(ctx, endpoint, resourceVersion) : NOTHING_TO_STOP
  const version = resourceVersion === undefined || isAsked ? {} : { resourceVersion }
  await ctx.resources.delete(webhookEndpoints, { namespace, name }, { uid, ...version })
  if (!endpoint) return
  ctx.directory.remove(endpoint)
  await ctx.replicas.untilRemovalKnown({ namespace, name, uid })
  if (isLate) throw new Problem('not_acknowledged', { detail: STILL_SENT })
}

/** `isLate`: a controller lives and has not acknowledged in time. `isAsked`: the object was changed to ask for it. */
type StopOutcome = { isLate: boolean; isAsked: boolean }

const NOTHING_TO_STOP: StopOutcome = { isLate: false, isAsked: false }

/** @throws ApiError `NotFound`, `Conflict` if it is another endpoint or version by now, and others */
async function stopSending(
  ctx: Context,
  endpoint: WebhookEndpoint,
  resourceVersion: string | undefined,
): Promise<StopOutcome> {
  const isQuiet = endpoint.status?.state === 'disabled' || !(await ctx.controllers.anyLives())
  if (isQuiet) return NOTHING_TO_STOP
  const { namespace = '', name, uid } = endpoint.metadata
  // As a request, so that it does not matter who manages the spec.
  const request: StateRequest = { state: 'disabled', at: requestTime(endpoint, ctx.clock.now()) }
  const guard = { uid, ...(resourceVersion === undefined ? {} : { resourceVersion }) }
  const body = { metadata: { ...guard, annotations: annotationsOf(request) } }
  let patched: WebhookEndpoint
  try {
    patched = parseStored(ENDPOINT, await ctx.resources.patch(webhookEndpoints, { namespace, name }, body))
  } catch (error) {
    // Policies of the cluster may keep Davit from changing what it may delete.
    if (isApiError(error, 'Invalid', 'Forbidden')) return { isLate: true, isAsked: false }
    throw error
  }
  ctx.directory.applyRead(patched)
  const generation = patched.metadata.generation ?? 0
  const seen = await ctx.acknowledgements.when(
    patched.metadata,
    (endpoint) => isAcknowledged(endpoint, generation, request),
    ACKNOWLEDGED_WITHIN_MS,
  )
  return { isLate: seen === 'late', isAsked: true }
}

const CONTROLLER_ROLE = 'controller'
/** Clocks differ, and an attempt begun before the Lease ended may still be running. */
const SLACK_MS = 60_000

/** Whether a controller runs that has to stop sending. */
export class LiveControllers {
  readonly #resources: Pick<ResourceReader, 'list'>
  readonly #namespace: string
  readonly #clock: Pick<Clock, 'now'>

  /** @param namespace Davit's own @param clock that of Leases */
  constructor(resources: Pick<ResourceReader, 'list'>, namespace: string, clock: Pick<Clock, 'now'>) {
    this.#resources = resources
    this.#namespace = namespace
    this.#clock = clock
  }

  /** True for a while after the last one died. @throws ApiError */
  async anyLives(): Promise<boolean> {
    const query = { labelSelector: `${REPLICA_LABEL}=${CONTROLLER_ROLE}`, limit: MAX_LEASES }
    const { items } = await this.#resources.list(leases, { namespace: this.#namespace, ...query })
    return items.some((raw) => mayLive(raw, this.#clock.now()))
  }
}

/** A Lease that cannot be read may belong to a live controller. */
function mayLive(raw: RawObject, now: number): boolean {
  const { renewTime = '', leaseDurationSeconds = 0 } = leaseTimes.safeParse(raw).data?.spec ?? {}
  const renewedAt = Date.parse(renewTime)
  return Number.isNaN(renewedAt) || now - renewedAt < leaseDurationSeconds * 1000 + SLACK_MS
}
