import { managedBy } from '../apis/annotations.ts'
import { secrets } from '../apis/core-kinds.ts'
import { ENDPOINT_PREFIX, NAME_ENTROPY_BYTES, sortableName } from '../apis/ids.ts'
import { API_VERSION, type ObjectMeta, objectMeta } from '../apis/meta.ts'
import {
  NO_ENDPOINT_YET,
  type WebhookEndpoint,
  webhookEndpoint,
  webhookEndpointKind,
  webhookEndpointSpec,
  webhookEndpoints,
} from '../apis/webhook-endpoint.ts'
import { ApiError, type DeletePrecondition, isApiError, type RawObject } from '../kube/client.ts'
import { etagOf, ifMatchHolds } from '../lib/text.ts'
import { signingSecretName } from '../webhooks/endpoints/directory.ts'
import { type ChangePlan, isAcknowledged, planChange } from '../webhooks/endpoints/plan.ts'
import { KeysDamagedError, keysObject, readKeys } from '../webhooks/endpoints/signing-keys.ts'
import { fingerprintOf, formatSecret, KEY_BYTES } from '../webhooks/sender/signature.ts'
import {
  acknowledged,
  checkFields,
  EndpointAcknowledgements,
  type EndpointsContext,
  type EndpointsOptions,
  NOTHING_TO_STOP,
  stopSending,
  UndisclosedSecrets,
} from './endpoint-acknowledgements.ts'
import {
  type Conditional,
  type CreatedEndpoint,
  type EndpointChange,
  type EndpointDraft,
  type EndpointId,
  type EndpointResource,
  type Endpoints,
  type Keyed,
  nameOfEndpoint,
  parseEndpoint,
  type RolledSecret,
  readEndpoint,
  readRaw,
  readStored,
  resourceOf,
  type TaggedEndpoint,
  taggedOf,
} from './endpoint-resource.ts'
import { clusterRefusal, RefusedError, refuseWhileStale, withRefusals } from './http/problems.ts'
import { ObjectQuota, type QuotaTicket, retryOnConflict } from './object-writes.ts'
import { rollSecret } from './roll-secret.ts'

/**
 * Makes an endpoint over REST: its signing key first, then the endpoint. With a name that is given by its
 * Idempotency-Key, a repeat goes on where the first ended.
 */

/** An endpoint can be used before the controller has seen it; a moment is spent on it all the same. */
const SEEN_WITHIN_MS = 2000

type Made = {
  endpoint: WebhookEndpoint
  secret: string
  /** Nobody has been shown the secret. */
  isUnseen: boolean
}
/** Where: the organization, and the name. */
type Place = { namespace: string; name: string }
/** The key that will sign. @param isNew made by this call @param version of its Secret, where this call knows that it made it */
type WrittenKey = { secret: string; isNew: boolean; version?: DeletePrecondition }

class EndpointCreation {
  readonly #ctx: EndpointsContext
  readonly #room: ObjectQuota

  constructor(ctx: EndpointsContext) {
    this.#ctx = ctx
    const { directory, maxEndpoints } = ctx
    this.#room = new ObjectQuota({
      held: (organization) => directory.inNamespace(organization).length,
      most: maxEndpoints,
      refusal: (held) => {
        const detail = `The organization has ${held} endpoints, and may have ${maxEndpoints}.`
        return new RefusedError('too_many_endpoints', { detail })
      },
    })
  }

  async create(
    organization: string,
    draft: EndpointDraft,
    key: string | undefined,
  ): Promise<CreatedEndpoint> {
    const place = this.#room.ticketFor(organization)
    const check = async () => {
      checkFields(this.#ctx, draft)
      place.take()
    }
    const act = (name: string) => this.#make({ namespace: organization, name }, draft, place)
    try {
      return await this.#created(organization, draft, { key, check, act })
    } finally {
      place.giveBack()
    }
  }

  async #created(
    organization: string,
    draft: EndpointDraft,
    steps: { key: string | undefined; check: () => Promise<void>; act: (name: string) => Promise<Made> },
  ): Promise<CreatedEndpoint> {
    const { keys, clock, random } = this.#ctx
    const { key, check, act } = steps
    if (key === undefined) {
      await check()
      const name = sortableName(clock.now(), random.bytes(NAME_ENTROPY_BYTES))
      return answerOf(draft, name, await act(name))
    }
    const request = { organization, operation: 'createEndpoint', key, asked: askedFor(draft) }
    const { id, result } = await keys.around(request, { check, act })
    // Where an earlier call failed before it made the key, or before it answered, this is the first showing.
    if (result?.isUnseen) return answerOf(draft, id, result)
    const etag = await this.#etagOf({ organization, endpointId: ENDPOINT_PREFIX + id })
    return { ...answerOf(draft, id), ...(etag === undefined ? {} : { etag }) }
  }

  async #make(at: Place, draft: EndpointDraft, place: QuotaTicket): Promise<Made> {
    const { unseen, directory } = this.#ctx
    // A repeat was not checked, and may be the first that makes it.
    if (!directory.get(at.namespace, at.name)) place.take()
    const key = await this.#writeKey(at)
    const { secret } = key
    const { result: endpoint, isUnseen } = await unseen.whenDone(secret, key.isNew, async () => {
      const endpoint = await this.#writeEndpoint(at, draft, key)
      place.giveBack()
      await this.#seen(endpoint, secret)
      // What is published next comes to it, through whichever replica.
      await this.#ctx.replicas.know(endpoint)
      return endpoint
    })
    return { endpoint, secret, isUnseen }
  }

  async #seen({ metadata }: WebhookEndpoint, secret: string): Promise<void> {
    const { namespace = '', name, uid } = metadata
    const fingerprint = fingerprintOf(secret)
    await this.#ctx.acknowledgements.when(
      { namespace, name, uid },
      ({ status }) => status?.signingSecrets?.some((key) => key.fingerprint === fingerprint) ?? false,
      SEEN_WITHIN_MS,
    )
  }

  async #writeKey(place: Place): Promise<WrittenKey> {
    const { resources, namespace, clock, random, unseen } = this.#ctx
    const secret = formatSecret(random.bytes(KEY_BYTES))
    const key = { secret, createdAt: new Date(clock.now()).toISOString() }
    try {
      const object = keysObject(namespace, { ...place, uid: NO_ENDPOINT_YET }, [key])
      const { uid = '', resourceVersion = '' } = (await resources.create(secrets, object)).metadata
      return { secret, isNew: true, version: { uid, resourceVersion } }
    } catch (error) {
      if (!isApiError(error, 'AlreadyExists')) {
        // It may be stored all the same.
        unseen.add(secret)
        throw error
      }
    }
    const name = signingSecretName(place.namespace, place.name)
    const [held] = readKeys(await resources.get(secrets, { namespace, name })).keys.keys
    if (!held) throw new KeysDamagedError(`${namespace}/${name}`)
    // A write whose answer was lost was made again.
    return { secret: held.secret, isNew: held.secret === secret }
  }

  async #writeEndpoint(
    place: Place,
    draft: EndpointDraft,
    { version }: WrittenKey,
  ): Promise<WebhookEndpoint> {
    const { resources } = this.#ctx
    const spec = specOf(draft)
    const object = { apiVersion: API_VERSION, kind: webhookEndpointKind.kind, metadata: place, spec }
    try {
      return this.#applied(await resources.create(webhookEndpoints, object))
    } catch (error) {
      // An earlier call under this name has come as far.
      if (isApiError(error, 'AlreadyExists'))
        return this.#applied(await resources.get(webhookEndpoints, place))
      // Only where it was refused: without an answer it may be there, and with one that cannot be read it is.
      const isRefused = isApiError(error) && !isApiError(error, 'Unavailable', 'TooManyRequests')
      if (version && isRefused) await this.#takeBackKey(place, version)
      throw refusalOfCreate(error)
    }
  }

  #applied(raw: RawObject): WebhookEndpoint {
    const endpoint = parseEndpoint(raw)
    this.#ctx.directory.applyRead(endpoint)
    return endpoint
  }

  /** Nobody has seen it. What stays all the same, the controller sweeps away. */
  async #takeBackKey(place: Place, version: DeletePrecondition): Promise<void> {
    const { resources, namespace, log } = this.#ctx
    try {
      await resources.delete(
        secrets,
        { namespace, name: signingSecretName(place.namespace, place.name) },
        version,
      )
    } catch (error) {
      log.warn('A signing key of no endpoint stays until the next sweep', { error, ...place })
    }
  }

  async #etagOf(id: EndpointId): Promise<string | undefined> {
    try {
      return etagOf((await readEndpoint(this.#ctx, id)).metadata)
    } catch (error) {
      if (error instanceof RefusedError) return undefined
      throw error
    }
  }
}

function refusalOfCreate(error: unknown): unknown {
  if (isApiError(error, 'Quota')) {
    const detail = "A ResourceQuota of the organization's namespace does not allow another endpoint."
    return new RefusedError('too_many_endpoints', { detail, cause: error })
  }
  // The namespace went meanwhile.
  if (isApiError(error, 'NotFound')) return new RefusedError('not_found', { cause: error })
  return clusterRefusal(error)
}

/** The same text for the same request, whatever was left to its default. */
function askedFor(draft: EndpointDraft): string {
  const { url, eventTypes, description = null, ordered, deliveryLog, concurrency } = specOf(draft)
  return JSON.stringify([url, eventTypes, description, ordered, deliveryLog, concurrency])
}

function specOf(draft: EndpointDraft) {
  return webhookEndpointSpec.parse(draft)
}

/** The endpoint as it is when it is made: what the first answer says, and every repeat. */
function fresh(draft: EndpointDraft, name: string): WebhookEndpoint {
  return { metadata: { name, uid: '', resourceVersion: '' }, spec: specOf(draft) }
}

/** @param made absent in a repeat */
function answerOf(draft: EndpointDraft, name: string, made?: Made): CreatedEndpoint {
  const endpoint = resourceOf(fresh(draft, name))
  if (!made) return { endpoint, replayed: true }
  return { endpoint, etag: etagOf(made.endpoint.metadata), secret: made.secret, replayed: false }
}

/** PATCH and DELETE of an endpoint. */

const STILL_SENT =
  'It is deleted. A controller that does not answer may still send what it had of it, until it sees that.'

/** A plan that can be carried out. */
type Patch = Extract<ChangePlan, { kind: 'patch' }>

async function changeEndpoint(
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

/** Endpoints over REST: the resources that kubectl and Git see as well. */

export class EndpointService implements Endpoints {
  readonly #ctx: EndpointsContext
  readonly #creation: EndpointCreation

  constructor(options: EndpointsOptions) {
    const { directory, clock } = options
    const acknowledgements = new EndpointAcknowledgements(directory, clock)
    this.#ctx = { ...options, acknowledgements, unseen: new UndisclosedSecrets() }
    this.#creation = new EndpointCreation(this.#ctx)
  }

  create(organization: string, draft: EndpointDraft, { idempotencyKey }: Keyed): Promise<CreatedEndpoint> {
    return withRefusals(() => this.#creation.create(organization, draft, idempotencyKey))
  }

  /**
   * From what the watch has shown, which is within milliseconds what there is; own writes are in it at once. A cursor never
   * expires, and shows what is there by then.
   */
  list(
    organization: string,
    { limit, after }: { limit: number; after?: string | undefined },
  ): Promise<{ endpoints: EndpointResource[]; next?: string }> {
    return withRefusals(async () => {
      const { directory, behind } = this.#ctx
      refuseWhileStale('Which endpoints there are', behind)
      const found = directory
        .inNamespace(organization)
        .filter(({ endpoint: { metadata } }) => isNext(metadata, after))
        .sort((a, b) => (a.endpoint.metadata.name < b.endpoint.metadata.name ? -1 : 1))
      const endpoints = found.slice(0, limit).map(({ endpoint }) => resourceOf(endpoint))
      const last = endpoints.at(-1)
      return found.length > limit && last ? { endpoints, next: last.endpointId } : { endpoints }
    })
  }

  get(id: EndpointId): Promise<TaggedEndpoint> {
    return withRefusals(async () => taggedOf(await readEndpoint(this.#ctx, id)))
  }

  change(id: EndpointId, change: EndpointChange, how: Conditional): Promise<TaggedEndpoint> {
    return withRefusals(() => changeEndpoint(this.#ctx, id, change, how))
  }

  remove(id: EndpointId, how: Conditional): Promise<void> {
    return withRefusals(() => removeEndpoint(this.#ctx, id, how))
  }

  roll(id: EndpointId, roll: { expireOld: boolean }, { idempotencyKey }: Keyed): Promise<RolledSecret> {
    return withRefusals(() => rollSecret(this.#ctx, id, roll, idempotencyKey))
  }
}

/** Not one that is being deleted. @param after the last id that the reader has */
function isNext(
  { name, deletionTimestamp }: WebhookEndpoint['metadata'],
  after: string | undefined,
): boolean {
  return deletionTimestamp === undefined && (after === undefined || ENDPOINT_PREFIX + name > after)
}
