/** PATCH and DELETE of an endpoint. */
import { type WebhookEndpoint, webhookEndpoints } from '../../../api/webhook-endpoint.ts'
import { type ChangePlan, isAcknowledged, planChange } from '../../../domain/endpoint-change.ts'
import { etagOf, ifMatchHolds } from '../../../domain/etag.ts'
import { managerOf } from '../../../domain/managed-elsewhere.ts'
import type { Conditional, EndpointChange, EndpointId, TaggedEndpoint } from '../../../ports/endpoints.ts'
import { isApiError, type RawObject } from '../../../ports/kubernetes.ts'
import { RefusedError } from '../../../ports/refused-error.ts'
import { acknowledged, checkFields, clusterRefusal, type EndpointsContext } from './context.ts'
import { taggedOf } from './endpoint-resource.ts'
import { parseEndpoint, readStored } from './live-endpoint.ts'

/** Another writer may come between the look and the write so often. */
const MAX_TRIES = 10

/** A plan that can be carried out. */
type Patch = Extract<ChangePlan, { kind: 'patch' }>

export async function changeEndpoint(
  ctx: EndpointsContext,
  id: EndpointId,
  change: EndpointChange,
  how: Conditional,
): Promise<TaggedEndpoint> {
  return await untilUndisturbed(async () => {
    const { endpoint, raw } = await readMatching(ctx, id, how)
    checkFields(ctx, change)
    const plan = planOf(endpoint, raw, change, ctx.clock.now())
    if (!plan.spec && !plan.annotations) return taggedOf(endpoint)
    const patched = await patch(ctx, endpoint, plan, how)
    const generation = patched.metadata.generation ?? 0
    const wanted = (seen: WebhookEndpoint) => isAcknowledged(seen, generation, plan.request)
    return taggedOf(await acknowledged(ctx, patched, wanted))
  })
}

export async function removeEndpoint(ctx: EndpointsContext, id: EndpointId, how: Conditional): Promise<void> {
  await untilUndisturbed(async () => {
    const { endpoint } = await readMatching(ctx, id, how)
    const { namespace, name, uid, resourceVersion } = endpoint.metadata
    const version = how.ifMatch === undefined ? {} : { resourceVersion }
    try {
      await ctx.resources.delete(webhookEndpoints, { namespace, name }, { uid, ...version })
    } catch (error) {
      if (isApiError(error, 'NotFound')) throw new RefusedError('not_found')
      throw error
    }
    ctx.directory.remove(endpoint)
  })
}

async function readMatching(ctx: EndpointsContext, id: EndpointId, { ifMatch }: Conditional) {
  const stored = await readStored(ctx, id)
  if (ifMatchHolds(ifMatch, etagOf(stored.endpoint.metadata))) return stored
  throw new RefusedError('precondition_failed')
}

function planOf(endpoint: WebhookEndpoint, raw: RawObject, change: EndpointChange, now: number): Patch {
  const manager = managerOf(raw.metadata)
  const plan = planChange(endpoint, change, manager !== undefined, now)
  if (plan.kind === 'patch') return plan
  const detail = `The spec is managed by ${manager}: change ${plan.fields.join(', ')} there. Only status can be changed here.`
  throw new RefusedError('managed_elsewhere', { detail })
}

async function patch(
  ctx: EndpointsContext,
  { metadata }: WebhookEndpoint,
  { spec, annotations }: Patch,
  { ifMatch }: Conditional,
): Promise<WebhookEndpoint> {
  const { namespace, name, uid, resourceVersion } = metadata
  // The UID makes a write to one recreated under the same name a conflict.
  const guard = { uid, ...(ifMatch === undefined ? {} : { resourceVersion }) }
  const body = { metadata: { ...guard, ...(annotations ? { annotations } : {}) }, ...(spec ? { spec } : {}) }
  try {
    const patched = parseEndpoint(await ctx.resources.patch(webhookEndpoints, { namespace, name }, body))
    ctx.directory.apply(patched)
    return patched
  } catch (error) {
    if (isApiError(error, 'NotFound')) throw new RefusedError('not_found')
    throw clusterRefusal(error)
  }
}

/** A conflict means that somebody else was quicker: what was decided is decided again. */
export async function untilUndisturbed<T>(work: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await work()
    } catch (error) {
      if (!isApiError(error, 'Conflict', 'AlreadyExists')) throw error
      if (tries === MAX_TRIES) throw new RefusedError('overloaded', { retryAfter: 1, cause: error })
    }
  }
}
