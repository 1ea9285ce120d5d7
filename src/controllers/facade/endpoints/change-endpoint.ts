/** PATCH and DELETE of an endpoint. */
import { type ObjectMeta, objectMeta } from '../../../api/meta.ts'
import { type WebhookEndpoint, webhookEndpoint, webhookEndpoints } from '../../../api/webhook-endpoint.ts'
import { type ChangePlan, isAcknowledged, planChange } from '../../../domain/endpoint-change.ts'
import { etagOf, ifMatchHolds } from '../../../domain/etag.ts'
import { managerOf } from '../../../domain/managed-elsewhere.ts'
import type { Conditional, EndpointChange, EndpointId, TaggedEndpoint } from '../../../ports/endpoints.ts'
import { ApiError, isApiError, type RawObject } from '../../../ports/kubernetes.ts'
import { RefusedError } from '../../../ports/refused-error.ts'
import { clusterRefusal } from '../cluster-refusal.ts'
import { untilUndisturbed } from '../until-undisturbed.ts'
import { acknowledged, checkFields, type EndpointsContext } from './context.ts'
import { taggedOf } from './endpoint-resource.ts'
import { nameOfEndpoint, parseEndpoint, readRaw, readStored } from './live-endpoint.ts'

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
    if (!plan.spec && !plan.annotations) return taggedOf(await known(ctx, endpoint))
    const patched = await patch(ctx, endpoint, plan, how)
    const generation = patched.metadata.generation ?? 0
    const wanted = (seen: WebhookEndpoint) => isAcknowledged(seen, generation, plan.request)
    const answer = await acknowledged(ctx, patched, wanted)
    await known(ctx, patched)
    return taggedOf(answer)
  })
}

/** Also of one that this version cannot use: nothing but its metadata is needed. */
export async function removeEndpoint(
  ctx: Pick<EndpointsContext, 'resources' | 'directory' | 'replicas'>,
  id: EndpointId,
  how: Conditional,
): Promise<void> {
  await untilUndisturbed(async () => {
    const raw = await readDeletable(ctx, id)
    const metadata = objectMeta.parse(raw.metadata)
    if (metadata.deletionTimestamp !== undefined) throw new RefusedError('not_found')
    refuseChanged(metadata, how)
    const { namespace, name, uid, resourceVersion } = metadata
    const version = how.ifMatch === undefined ? {} : { resourceVersion }
    try {
      await ctx.resources.delete(webhookEndpoints, { namespace, name }, { uid, ...version })
    } catch (error) {
      if (isApiError(error, 'NotFound')) throw new RefusedError('not_found')
      throw error
    }
    const { data: endpoint } = webhookEndpoint.safeParse(raw)
    // What nobody can use gets nothing anywhere.
    if (!endpoint) return
    ctx.directory.remove(endpoint)
    await ctx.replicas.knowRemoval({ namespace: namespace ?? id.organization, name, uid })
  })
}

/** Whoever comes again for one that is gone is told so when it is gone for all. */
async function readDeletable(ctx: Pick<EndpointsContext, 'resources' | 'replicas'>, id: EndpointId) {
  try {
    return await readRaw(ctx.resources, id)
  } catch (error) {
    const name = nameOfEndpoint(id.endpointId)
    if (error instanceof RefusedError && name !== undefined)
      await ctx.replicas.knowRemovalBefore({ namespace: id.organization, name })
    throw error
  }
}

/** So that what is published next goes by it, through whichever replica. */
async function known(ctx: EndpointsContext, endpoint: WebhookEndpoint): Promise<WebhookEndpoint> {
  await ctx.replicas.know(endpoint)
  return endpoint
}

async function readMatching(ctx: EndpointsContext, id: EndpointId, how: Conditional) {
  const stored = await readStored(ctx, id)
  refuseChanged(stored.endpoint.metadata, how)
  return stored
}

function refuseChanged(metadata: ObjectMeta, { ifMatch }: Conditional): void {
  if (!ifMatchHolds(ifMatch, etagOf(metadata))) throw new RefusedError('precondition_failed')
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
  // The UID keeps it from one recreated under the same name.
  const guard = { uid, ...(ifMatch === undefined ? {} : { resourceVersion }) }
  const body = { metadata: { ...guard, ...(annotations ? { annotations } : {}) }, ...(spec ? { spec } : {}) }
  try {
    const patched = parseEndpoint(await ctx.resources.patch(webhookEndpoints, { namespace, name }, body))
    ctx.directory.learn(patched)
    return patched
  } catch (error) {
    if (isApiError(error, 'NotFound')) throw new RefusedError('not_found')
    if (await isReplaced(ctx, metadata, error))
      throw new ApiError('Conflict', `${name} is another one by now`)
    throw clusterRefusal(error)
  }
}

/** The API server calls a patch with another UID invalid, as it does one that breaks a rule. */
async function isReplaced(
  { resources }: EndpointsContext,
  was: ObjectMeta,
  error: unknown,
): Promise<boolean> {
  if (!isApiError(error, 'Invalid')) return false
  const { namespace, name, uid } = was
  return (await resources.get(webhookEndpoints, { namespace, name })).metadata.uid !== uid
}
