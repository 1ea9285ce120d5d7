/** PATCH and DELETE of an endpoint. */

import { managedBy } from '../apis/managed-elsewhere.ts'
import { type ObjectMeta, objectMeta } from '../apis/meta.ts'
import { type WebhookEndpoint, webhookEndpoint, webhookEndpoints } from '../apis/webhook-endpoint.ts'
import { ApiError, isApiError, type RawObject } from '../kube/client.ts'
import { etagOf, ifMatchHolds } from '../lib/etag.ts'
import { type ChangePlan, isAcknowledged, planChange } from '../webhooks/endpoints/endpoint-change.ts'
import { acknowledged, checkFields, type EndpointsContext } from './endpoint-acknowledgements.ts'
import type { Conditional, EndpointChange, EndpointId, TaggedEndpoint } from './endpoint-resource.ts'
import { taggedOf } from './endpoints-endpoint-resource.ts'
import { clusterRefusal } from './http/cluster-refusal.ts'
import { RefusedError } from './http/refused-error.ts'
import { nameOfEndpoint, parseEndpoint, readRaw, readStored } from './live-endpoint.ts'
import { NOTHING_TO_STOP, stopSending } from './stop-sending.ts'
import { retryOnConflict } from './until-undisturbed.ts'

const STILL_SENT =
  'It is deleted. A controller that does not answer may still send what it had of it, until it sees that.'

/** A plan that can be carried out. */
type Patch = Extract<ChangePlan, { kind: 'patch' }>

export async function changeEndpoint(
  ctx: EndpointsContext,
  id: EndpointId,
  change: EndpointChange,
  how: Conditional,
): Promise<TaggedEndpoint> {
  return await retryOnConflict(async () => {
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

type RemovalContext = Pick<
  EndpointsContext,
  'resources' | 'directory' | 'replicas' | 'acknowledgements' | 'controllers' | 'clock'
>

/** Also of one that this version cannot use: nothing but its metadata is needed. */
export async function removeEndpoint(ctx: RemovalContext, id: EndpointId, how: Conditional): Promise<void> {
  await retryOnConflict(async () => {
    const raw = await readDeletable(ctx, id)
    const metadata = objectMeta.parse(raw.metadata)
    if (metadata.deletionTimestamp !== undefined) throw new RefusedError('not_found')
    refuseChanged(metadata, how)
    try {
      await remove(ctx, raw, metadata, how.ifMatch === undefined ? undefined : metadata.resourceVersion)
    } catch (error) {
      if (isApiError(error, 'NotFound')) throw new RefusedError('not_found')
      throw error
    }
  })
}

/** @param only the version in which alone it is to be deleted; absent: in any */
async function remove(
  ctx: RemovalContext,
  raw: RawObject,
  { namespace = '', name, uid }: ObjectMeta,
  only: string | undefined,
): Promise<void> {
  const version = only === undefined ? {} : { resourceVersion: only }
  const { data: endpoint } = webhookEndpoint.safeParse(raw)
  // What nobody can use gets nothing anywhere.
  const { isLate, isAsked } = endpoint ? await stopSending(ctx, endpoint, only) : NOTHING_TO_STOP
  await ctx.resources.delete(webhookEndpoints, { namespace, name }, { uid, ...(isAsked ? {} : version) })
  if (!endpoint) return
  ctx.directory.remove(endpoint)
  await ctx.replicas.knowRemoval({ namespace, name, uid })
  if (isLate) throw new RefusedError('not_acknowledged', { detail: STILL_SENT })
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
  const manager = managedBy(raw.metadata)
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
    ctx.directory.applyRead(patched)
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
