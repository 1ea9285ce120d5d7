import { specManagersOf } from '../apis/annotations.ts'
import { secrets } from '../apis/core-kinds.ts'
import { ENDPOINT_PREFIX } from '../apis/ids.ts'
import { API_VERSION, type ObjectMeta } from '../apis/meta.ts'
import {
  NO_ENDPOINT_YET,
  type WebhookEndpoint,
  webhookEndpointSpec,
  webhookEndpoints,
} from '../apis/webhook-endpoint.ts'
import { ApiError, type DeletePrecondition, findObject, isApiError, type RawObject } from '../kube/client.ts'
import type { EndpointIdentity } from '../webhooks/endpoints/directory.ts'
import { signingSecretName } from '../webhooks/endpoints/directory.ts'
import { type ChangePlan, isAcknowledged, planChange } from '../webhooks/endpoints/plan.ts'
import { KeysDamagedError, keysData, keysObject, readKeys } from '../webhooks/endpoints/signing-keys.ts'
import {
  activeKeys,
  MAX_ACTIVE_KEYS,
  OVERLAP_SECONDS,
  rollKeys,
  type SigningKey,
  withoutUnseen,
} from '../webhooks/sender/key-rotation.ts'
import { formatSecret, KEY_BYTES } from '../webhooks/sender/signature.ts'
import {
  ENDPOINT,
  type EndpointChange,
  type EndpointDraft,
  type EndpointId,
  type EndpointResource,
  endpointRef,
  readEndpoint,
  resourceOf,
  secretsOf,
  type TaggedEndpoint,
  taggedOf,
} from './endpoint-resource.ts'
import {
  acknowledged,
  EndpointAcknowledgements,
  type EndpointServiceOptions,
  type EndpointsContext,
  hasSecret,
  removeEndpoint,
  UndisclosedSecrets,
} from './endpoint-writes.ts'
import { Problem, refuseWhileStale, rejectedByCluster } from './http/problems.ts'
import { type PageQuery, pageOf } from './lists.ts'
import { ObjectQuota, type QuotaTicket } from './object-quota.ts'
import {
  type Conditional,
  checkIfMatch,
  etagIfPresent,
  type Keyed,
  managedProblem,
  type NamespacedRef,
  notFoundOr,
  parseStored,
  readRaw,
  retryOnConflict,
  tagOf,
} from './objects.ts'

/** Rolls the signing secret of an endpoint (interface §4.2 rule 3). */

type RolledSecret = {
  /** Returned once; absent in a repeat. */
  secret?: string
  overlapSeconds: number
  replayed: boolean
}

/** @param request names the roll: the same request makes no second key */
type Roll = { expireOld: boolean; request?: string }

async function rollSecret(
  ctx: EndpointsContext,
  id: EndpointId,
  { expireOld }: Roll,
  key: string | undefined,
): Promise<RolledSecret> {
  const overlapSeconds = expireOld ? 0 : OVERLAP_SECONDS
  const { organization, endpointId } = id
  const { result } = await ctx.keys.around(
    { organization, operation: 'roll', key, asked: () => `${endpointId} ${expireOld}` },
    {
      // A roll that is refused uses up no key. Without a key, `act` refuses it just as well.
      ...(key === undefined ? {} : { check: async () => void (await planRoll(ctx, id, { expireOld }, '')) }),
      act: (request) => makeSecret(ctx, id, { expireOld, request }),
    },
  )
  // If an earlier call failed before it made the key or before it responded, this is the first response.
  if (result?.isUndisclosed) return { secret: result.secret, overlapSeconds, replayed: false }
  return { overlapSeconds, replayed: true }
}

/** @returns the secret of that roll, in use, and whether it may be returned */
async function makeSecret(
  ctx: EndpointsContext,
  id: EndpointId,
  roll: Roll,
): Promise<{ secret: string; isUndisclosed: boolean }> {
  const candidate = formatSecret(ctx.random.bytes(KEY_BYTES))
  const { endpoint, key } = await retryOnConflict(() => writeKey(ctx, id, roll, candidate))
  const { secret } = key
  const before = roll.expireOld ? ' The previous secrets have expired.' : ''
  const detail = `The new secret is stored but not active yet, and this response does not contain it.${before} Repeat the request with the same Idempotency-Key to receive this secret. If you repeat the request without that key, Davit replaces this secret with another new one.`
  const { isUndisclosed } = await ctx.undisclosed.whenDone(secret, secret === candidate, async () => {
    // A key that has expired in the meantime is never acknowledged.
    if (activeKeys([key], ctx.clock.now()).length === 0) return
    await acknowledged(ctx, endpoint, (seen) => hasSecret(seen, secret), detail)
  })
  return { secret, isUndisclosed }
}

/** @returns the endpoint as it was, and the key that this roll made, now or before */
async function writeKey(
  ctx: EndpointsContext,
  id: EndpointId,
  roll: Roll,
  secret: string,
): Promise<{ endpoint: WebhookEndpoint; key: SigningKey }> {
  const { endpoint, ref, held, rolled } = await planRoll(ctx, id, roll, secret)
  const made = rolled.kind === 'repeated' ? held.keys : rolled.keys
  const key = made.find(({ request }) => request === roll.request)
  const { namespace = '', name, uid } = endpoint.metadata
  if (!key) throw new Error(`no signing secret was created for ${namespace}/${name}`)
  if (rolled.kind === 'repeated') return { endpoint, key }
  try {
    if (held.version === undefined)
      // The controller may be creating the first key: it adopts this one, or the conflict repeats the cycle.
      await ctx.resources.create(secrets, keysObject(ctx.namespace, { namespace, name, uid }, rolled.keys))
    else {
      const metadata = { resourceVersion: held.version }
      await ctx.resources.patch(secrets, ref, { metadata, data: keysData(uid, rolled.keys) })
    }
  } catch (error) {
    // It may be stored nevertheless. After a conflict the cycle looks again.
    if (!isApiError(error, 'Conflict', 'AlreadyExists')) ctx.undisclosed.add(secret)
    throw error
  }
  return { endpoint, key }
}

const TOO_MANY_SECRETS = `The endpoint has ${MAX_ACTIVE_KEYS} active signing secrets. Wait until one expires, or set expireOld to true when you rotate the secret.`

/** @throws Problem not_found, too_many_secrets */
async function planRoll(ctx: EndpointsContext, id: EndpointId, roll: Roll, secret: string) {
  const now = ctx.clock.now()
  const { object: endpoint } = await readEndpoint(ctx, id)
  const { namespace = '', name, uid } = endpoint.metadata
  const ref = { namespace: ctx.namespace, name: signingSecretName(namespace, name) }
  const held = await readHeld(ctx, ref, uid)
  const isOther = (key: SigningKey) => key.request === undefined || key.request !== roll.request
  // The secret of a failed request is of no use to the client: it does not count, and ends.
  const keys = withoutUnseen(held.keys, (key) => isOther(key) && ctx.undisclosed.has(key.secret), now)
  const shared = endpoint.spec.signingSecret !== undefined
  const rolled = rollKeys(keys, { ...roll, secret, shared }, now)
  if (rolled.kind !== 'tooMany') return { endpoint, ref, held, rolled }
  throw new Problem('too_many_secrets', { detail: TOO_MANY_SECRETS })
}

/** Ignores keys of an earlier endpoint of that name. @returns `version` is absent if nothing is stored */
async function readHeld(
  { resources }: EndpointsContext,
  ref: NamespacedRef,
  endpointUid: string,
): Promise<{ keys: readonly SigningKey[]; version?: string }> {
  const stored = await findObject(resources, secrets, ref)
  if (!stored) return { keys: [] }
  const { keys } = readKeys(stored)
  const isOwn = keys.endpointUid === endpointUid || keys.endpointUid === NO_ENDPOINT_YET
  return { keys: isOwn ? keys.keys : [], version: keys.version }
}

/**
 * Endpoints over REST: the same resources that kubectl and Git see. Creating one writes its signing key first and then the
 * endpoint; with an Idempotency-Key the name comes from the key, and a repeat continues where the first request ended.
 */

export type CreatedEndpoint = {
  /** As created, in a repeat too. */
  endpoint: EndpointResource
  /** Absent in a repeat if the endpoint is gone by then. */
  etag?: string
  /** Returned once; absent in a repeat. */
  secret?: string
  replayed: boolean
} & Warned

/** What may make attempts fail, in sentences. Absent: nothing that is known. */
export type Warned = { warnings?: string[] }

export type ChangedEndpoint = TaggedEndpoint & Warned

const NO_SECRET =
  ' This response does not contain the signing secret. Repeat the request with the same Idempotency-Key to receive the secret. If you repeat the request without that key, Davit creates another endpoint.'

/** An endpoint can be used before the controller has handled it; the response waits for that only a moment. */
const HANDLED_WITHIN_MS = 2000

/** @param isNew created by this call @param version of its Secret, if this call knows that it created it */
type WrittenKey = { secret: string; isNew: boolean; version?: DeletePrecondition }
type Created = { endpoint: WebhookEndpoint; secret: string; isUndisclosed: boolean }
/** A plan that can be carried out. */
type Patch = Extract<ChangePlan, { kind: 'patch' }>

/** All methods @throws Problem, and errors that `problemOf` turns into one. */
export class EndpointService {
  readonly #ctx: EndpointsContext
  readonly #quota: ObjectQuota

  constructor(options: EndpointServiceOptions) {
    const { directory, behind, clock, maxEndpoints: max } = options
    const acknowledgements = new EndpointAcknowledgements(directory, clock)
    this.#ctx = { ...options, acknowledgements, undisclosed: new UndisclosedSecrets() }
    this.#quota = new ObjectQuota({
      ...options,
      code: 'too_many_endpoints',
      noun: 'endpoint',
      type: webhookEndpoints,
      max,
      known: (organization) =>
        directory.inNamespace(organization).map(({ endpoint }) => endpoint.metadata.name),
      knowsAll: () => behind() === undefined,
    })
  }

  /** Usable at once. Problems: invalid, too_many_endpoints, idempotency_conflict */
  async create(
    organization: string,
    draft: EndpointDraft,
    { idempotencyKey: key }: Keyed,
  ): Promise<CreatedEndpoint> {
    const spec = webhookEndpointSpec.parse(draft)
    const { url, eventTypes, description = null, ordered, concurrency } = spec
    const asked = () => JSON.stringify([url, eventTypes, description, ordered, concurrency])
    const { id, result } = await this.#quota.during(organization, (ticket) =>
      this.#ctx.keys.around(
        { organization, operation: 'createEndpoint', key, asked },
        {
          check: async () => {
            this.#checkFields(draft)
            ticket.take()
          },
          act: (name) => this.#create({ namespace: organization, name }, spec, ticket),
        },
      ),
    )
    const endpoint = resourceOf({ metadata: { name: id, uid: '', resourceVersion: '' }, spec })
    // If an earlier call failed before it made the key or before it responded, this is the first response.
    const warned = this.#warningsOf(draft)
    if (result?.isUndisclosed) {
      const { secret } = result
      return { endpoint, etag: tagOf(ENDPOINT, result.endpoint), secret, ...warned, replayed: false }
    }
    const ref = { organization, endpointId: ENDPOINT_PREFIX + id }
    const etag = await etagIfPresent(ENDPOINT, () => readEndpoint(this.#ctx, ref))
    return { endpoint, ...etag, ...warned, replayed: true }
  }

  /** By name, from the watch, which is milliseconds behind at most; own writes are in it at once. */
  async list(
    organization: string,
    query: PageQuery,
  ): Promise<{ endpoints: EndpointResource[]; next?: string }> {
    const { page, ...next } = pageOf(
      this.#present(organization),
      ({ metadata }) => ENDPOINT_PREFIX + metadata.name,
      query,
    )
    return { endpoints: page.map(resourceOf), ...next }
  }

  /** All endpoints of the organization that are not being deleted. */
  async identifyAll(organization: string): Promise<EndpointIdentity[]> {
    const present = this.#present(organization)
    return present.map(({ metadata: { name, uid } }) => ({ namespace: organization, name, uid }))
  }

  #present(organization: string): WebhookEndpoint[] {
    const { directory, behind } = this.#ctx
    refuseWhileStale(behind)
    const all = directory.inNamespace(organization).map(({ endpoint }) => endpoint)
    return all.filter(({ metadata }) => metadata.deletionTimestamp === undefined)
  }

  async get(id: EndpointId): Promise<TaggedEndpoint> {
    return taggedOf((await readEndpoint(this.#ctx, id)).object)
  }

  /** The fingerprints of its active signing secrets. */
  async secrets(id: EndpointId): Promise<ReturnType<typeof secretsOf>> {
    return secretsOf((await readEndpoint(this.#ctx, id)).object)
  }

  /** The endpoint that has the id now, valid or not, and not being deleted. @throws Problem not_found */
  async identify(id: EndpointId): Promise<EndpointIdentity> {
    const ref = endpointRef(id)
    const { uid, deletionTimestamp } = (await readRaw(this.#ctx.resources, webhookEndpoints, ref)).metadata
    if (deletionTimestamp !== undefined || !uid) throw new Problem('not_found')
    return { ...ref, uid }
  }

  /** In effect when it returns. Problems: invalid, managed_elsewhere, precondition_failed, not_acknowledged */
  async change(id: EndpointId, change: EndpointChange, how: Conditional): Promise<ChangedEndpoint> {
    return { ...(await this.#change(id, change, how)), ...this.#warningsOf(change) }
  }

  async #change(id: EndpointId, change: EndpointChange, how: Conditional): Promise<TaggedEndpoint> {
    const ctx = this.#ctx
    return await retryOnConflict(async () => {
      const { object: endpoint, raw } = await readEndpoint(ctx, id)
      checkIfMatch(ENDPOINT, endpoint, how)
      this.#checkFields(change)
      const plan = planOf(endpoint, raw, change, ctx.clock.now())
      if (!plan.spec && !plan.annotations) {
        await ctx.replicas.untilKnown(endpoint)
        return taggedOf(endpoint)
      }
      const patched = await this.#patch(endpoint.metadata, plan, how)
      const generation = patched.metadata.generation ?? 0
      const handled = await acknowledged(ctx, patched, (seen) =>
        isAcknowledged(seen, generation, plan.request),
      )
      await ctx.replicas.untilKnown(patched)
      return taggedOf(handled)
    })
  }

  /** Gone from REST at once. Problems: managed_elsewhere, precondition_failed, not_acknowledged */
  remove(id: EndpointId, how: Conditional): Promise<void> {
    return removeEndpoint(this.#ctx, id, how)
  }

  /** The new secret signs the next attempt. Problems: too_many_secrets, idempotency_conflict, not_acknowledged */
  roll(id: EndpointId, roll: { expireOld: boolean }, { idempotencyKey }: Keyed): Promise<RolledSecret> {
    return rollSecret(this.#ctx, id, roll, idempotencyKey)
  }

  /** Checks the rules that a schema cannot express. @throws Problem invalid */
  #checkFields({ url, eventTypes = [] }: Pick<EndpointChange, 'url' | 'eventTypes'>): void {
    const { urlGuard, catalogue } = this.#ctx
    const verdict = url === undefined ? { ok: true as const } : urlGuard.check(url)
    const unknown = new Set(catalogue.unknown(eventTypes))
    const errors = eventTypes.flatMap((type, index) =>
      unknown.has(type)
        ? [{ pointer: `/eventTypes/${index}`, message: `must be a known event type; ${type} does not exist` }]
        : [],
    )
    if (!verdict.ok) errors.unshift({ pointer: '/url', message: verdict.reason })
    if (errors.length > 0) throw new Problem('invalid', { errors })
  }

  #warningsOf({ url }: Pick<EndpointChange, 'url'>): Warned {
    const decision = url === undefined ? undefined : this.#ctx.urlGuard.check(url)
    return decision?.ok && decision.warning !== undefined ? { warnings: [decision.warning] } : {}
  }

  async #create(ref: NamespacedRef, spec: WebhookEndpoint['spec'], ticket: QuotaTicket): Promise<Created> {
    const { undisclosed, directory, acknowledgements, replicas } = this.#ctx
    // A repeat was not checked, and may be the first to create it.
    if (!directory.get(ref.namespace, ref.name)) {
      ticket.take()
      await ticket.reserve(ref.name)
    }
    const key = await this.#writeKey(ref)
    const { secret } = key
    const { result: endpoint, isUndisclosed } = await undisclosed.whenDone(secret, key.isNew, async () => {
      const endpoint = await this.#writeEndpoint(ref, spec, key)
      ticket.giveBack()
      await acknowledgements.when(endpoint.metadata, (seen) => hasSecret(seen, secret), HANDLED_WITHIN_MS)
      // The next event is delivered to it, through whichever replica it is published.
      await replicas.untilKnown(endpoint, NO_SECRET)
      return endpoint
    })
    return { endpoint, secret, isUndisclosed }
  }

  /** The key that will sign, from this call or from an earlier one under the same name. */
  async #writeKey(ref: NamespacedRef): Promise<WrittenKey> {
    const { resources, namespace, clock, random, undisclosed } = this.#ctx
    const secret = formatSecret(random.bytes(KEY_BYTES))
    const key = { secret, createdAt: new Date(clock.now()).toISOString() }
    try {
      const object = keysObject(namespace, { ...ref, uid: NO_ENDPOINT_YET }, [key])
      const { uid = '', resourceVersion = '' } = (await resources.create(secrets, object)).metadata
      return { secret, isNew: true, version: { uid, resourceVersion } }
    } catch (error) {
      if (!isApiError(error, 'AlreadyExists')) {
        // It may be stored nevertheless.
        undisclosed.add(secret)
        throw error
      }
    }
    const name = signingSecretName(ref.namespace, ref.name)
    const [held] = readKeys(await resources.get(secrets, { namespace, name })).keys.keys
    if (!held) throw new KeysDamagedError(`${namespace}/${name}`)
    // Equal if the client retried a write whose response was lost.
    return { secret: held.secret, isNew: held.secret === secret }
  }

  async #writeEndpoint(
    ref: NamespacedRef,
    spec: WebhookEndpoint['spec'],
    { version }: WrittenKey,
  ): Promise<WebhookEndpoint> {
    const { resources } = this.#ctx
    try {
      const object = { apiVersion: API_VERSION, kind: ENDPOINT.kind, metadata: ref, spec }
      return this.#learn(await resources.create(webhookEndpoints, object))
    } catch (error) {
      // An earlier call under this name created it.
      if (isApiError(error, 'AlreadyExists')) return this.#learn(await resources.get(webhookEndpoints, ref))
      // Only if it was rejected: without a response, or with one that cannot be read, it may exist.
      const isRejected = isApiError(error) && !isApiError(error, 'Unavailable', 'TooManyRequests')
      if (version && isRejected) await this.#takeBackKey(ref, version)
      throw this.#quota.problemOf(error)
    }
  }

  #learn(raw: RawObject): WebhookEndpoint {
    const endpoint = parseStored(ENDPOINT, raw)
    this.#ctx.directory.applyRead(endpoint)
    return endpoint
  }

  /** If this fails, the controller's sweep removes the key, which was never shown. */
  async #takeBackKey(ref: NamespacedRef, version: DeletePrecondition): Promise<void> {
    const { resources, namespace, log } = this.#ctx
    try {
      const name = signingSecretName(ref.namespace, ref.name)
      await resources.delete(secrets, { namespace, name }, version)
    } catch (error) {
      log.warn(
        'signing_secret_removal_failed',
        'failed to remove unused signing secret; the next sweep removes it',
        {
          error,
          ...ref,
        },
      )
    }
  }

  async #patch(metadata: ObjectMeta, plan: Patch, { ifMatch }: Conditional): Promise<WebhookEndpoint> {
    const { resources } = this.#ctx
    const { spec, annotations } = plan
    const { namespace, name, uid, resourceVersion } = metadata
    // The UID protects an endpoint recreated under the same name.
    const guard = { uid, ...(ifMatch === undefined ? {} : { resourceVersion }) }
    const body = {
      metadata: { ...guard, ...(annotations ? { annotations } : {}) },
      ...(spec ? { spec } : {}),
    }
    try {
      return this.#learn(await resources.patch(webhookEndpoints, { namespace, name }, body))
    } catch (error) {
      // The API server calls a patch with another UID invalid, like one that breaks a rule.
      const isReplaced =
        isApiError(error, 'Invalid') &&
        (await resources.get(webhookEndpoints, { namespace, name })).metadata.uid !== uid
      if (isReplaced) throw new ApiError('Conflict', `${name} was recreated`)
      throw rejectedByCluster(notFoundOr(error))
    }
  }
}

function planOf(endpoint: WebhookEndpoint, raw: RawObject, change: EndpointChange, now: number): Patch {
  const managers = specManagersOf(raw.metadata)
  const plan = planChange(endpoint, change, managers.length > 0, now)
  if (plan.kind === 'patch') return plan
  throw managedProblem(managers, plan.fields, '`status`')
}
