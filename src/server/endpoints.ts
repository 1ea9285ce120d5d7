/**
 * Makes an endpoint over REST: its signing key first, then the endpoint. With a name that is given by its
 * Idempotency-Key, a repeat goes on where the first ended.
 */
import { secrets } from '../apis/core-kinds.ts'
import { ENDPOINT_PREFIX } from '../apis/identifiers.ts'
import { NAME_ENTROPY_BYTES, sortableName } from '../apis/ids.ts'
import { API_VERSION } from '../apis/meta.ts'
import { NO_ENDPOINT_YET } from '../apis/signing-keys.ts'
import {
  type WebhookEndpoint,
  webhookEndpointKind,
  webhookEndpointSpec,
  webhookEndpoints,
} from '../apis/webhook-endpoint.ts'
import { type DeletePrecondition, isApiError, type RawObject } from '../kube/client.ts'
import { etagOf } from '../lib/etag.ts'
import { signingSecretName } from '../webhooks/endpoints/directory.ts'
import { KeysDamagedError, keysObject, readKeys } from '../webhooks/endpoints/signing-keys.ts'
import { fingerprintOf, formatSecret, KEY_BYTES } from '../webhooks/sender/domain-signature.ts'
import { checkFields, type EndpointsContext } from './endpoint-acknowledgements.ts'
import type { CreatedEndpoint, EndpointDraft, EndpointId } from './endpoint-resource.ts'
import { resourceOf } from './endpoints-endpoint-resource.ts'
import { clusterRefusal } from './http/cluster-refusal.ts'
import { RefusedError } from './http/refused-error.ts'
import { parseEndpoint, readEndpoint } from './live-endpoint.ts'
import { ObjectQuota, type QuotaTicket } from './object-writes.ts'

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

export class EndpointCreation {
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
