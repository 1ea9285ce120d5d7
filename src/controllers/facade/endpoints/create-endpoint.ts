/**
 * Makes an endpoint over REST: its signing key first, then the endpoint. With a name that is given by its
 * Idempotency-Key, a repeat goes on where the first ended.
 */
import { secrets } from '../../../api/core-kinds.ts'
import { API_VERSION } from '../../../api/meta.ts'
import { NO_ENDPOINT_YET } from '../../../api/signing-keys.ts'
import {
  type WebhookEndpoint,
  webhookEndpointKind,
  webhookEndpointSpec,
  webhookEndpoints,
} from '../../../api/webhook-endpoint.ts'
import { etagOf } from '../../../domain/etag.ts'
import { NAME_ENTROPY_BYTES, sortableName } from '../../../domain/message-id.ts'
import { fingerprintOf, formatSecret, KEY_BYTES } from '../../../domain/signature.ts'
import type { CreatedEndpoint, EndpointDraft, EndpointId } from '../../../ports/endpoints.ts'
import { isApiError, type RawObject } from '../../../ports/kubernetes.ts'
import { RefusedError } from '../../../ports/refused-error.ts'
import { secretName } from '../../endpoint/endpoint-directory.ts'
import { keysObject, readKeys } from '../../endpoint/signing-key-store.ts'
import { checkFields, clusterRefusal, type EndpointsContext } from './context.ts'
import { resourceOf } from './endpoint-resource.ts'
import { parseEndpoint, readEndpoint } from './live-endpoint.ts'

/** An endpoint can be used before the controller has seen it; a moment is spent on it all the same. */
const SEEN_WITHIN_MS = 2000

type Made = { endpoint: WebhookEndpoint; secret: string }
/** Where: the organization, and the name. */
type Place = { namespace: string; name: string }

export class EndpointCreation {
  readonly #ctx: EndpointsContext
  /** Endpoints that are being made, by organization: those count as well. */
  readonly #underWay = new Map<string, number>()

  constructor(ctx: EndpointsContext) {
    this.#ctx = ctx
  }

  async create(
    organization: string,
    draft: EndpointDraft,
    key: string | undefined,
  ): Promise<CreatedEndpoint> {
    const { keys, clock, random } = this.#ctx
    const check = () => this.#check(organization, draft)
    const act = (name: string) => this.#make({ namespace: organization, name }, draft)
    if (key === undefined) {
      check()
      const name = sortableName(clock.now(), random.bytes(NAME_ENTROPY_BYTES))
      return answerOf(draft, name, { made: await act(name), replayed: false })
    }
    const request = { organization, operation: 'createEndpoint', key, asked: askedFor(draft) }
    const { id, result, replayed } = await keys.around(request, { check, act })
    if (!replayed && result) return answerOf(draft, id, { made: result, replayed })
    const etag = await this.#etagOf({ organization, endpointId: resourceOf(fresh(draft, id)).endpointId })
    return { ...answerOf(draft, id, { replayed }), ...(etag === undefined ? {} : { etag }) }
  }

  #check(organization: string, draft: EndpointDraft): void {
    checkFields(this.#ctx, draft)
    const { directory, maxEndpoints } = this.#ctx
    const held = directory.inNamespace(organization).length + (this.#underWay.get(organization) ?? 0)
    if (held < maxEndpoints) return
    const detail = `The organization has ${held} endpoints, and may have ${maxEndpoints}.`
    throw new RefusedError('too_many_endpoints', { detail })
  }

  async #make(place: Place, draft: EndpointDraft): Promise<Made> {
    const { acknowledgements } = this.#ctx
    const count = (by: number) =>
      this.#underWay.set(place.namespace, (this.#underWay.get(place.namespace) ?? 0) + by)
    count(1)
    try {
      const { secret, isOurs } = await this.#writeKey(place)
      const endpoint = await this.#writeEndpoint(place, draft, isOurs)
      const { uid } = endpoint.metadata
      const fingerprint = fingerprintOf(secret)
      await acknowledgements.when(
        { ...place, uid },
        ({ status }) => status?.signingSecrets?.some((key) => key.fingerprint === fingerprint) ?? false,
        SEEN_WITHIN_MS,
      )
      return { endpoint, secret }
    } finally {
      count(-1)
      if (this.#underWay.get(place.namespace) === 0) this.#underWay.delete(place.namespace)
    }
  }

  /** @returns the key that will sign, and whether it was made just now */
  async #writeKey(place: Place): Promise<{ secret: string; isOurs: boolean }> {
    const { resources, namespace, clock, random } = this.#ctx
    const secret = formatSecret(random.bytes(KEY_BYTES))
    const key = { secret, createdAt: new Date(clock.now()).toISOString() }
    try {
      await resources.create(secrets, keysObject(namespace, { ...place, uid: NO_ENDPOINT_YET }, [key]))
      return { secret, isOurs: true }
    } catch (error) {
      if (!isApiError(error, 'AlreadyExists')) throw error
    }
    const name = secretName(place.namespace, place.name)
    const { keys } = readKeys(await resources.get(secrets, { namespace, name }))
    return { secret: keys.keys[0]?.secret ?? '', isOurs: false }
  }

  async #writeEndpoint(place: Place, draft: EndpointDraft, isOurs: boolean): Promise<WebhookEndpoint> {
    const { resources } = this.#ctx
    const spec = specOf(draft)
    const object = { apiVersion: API_VERSION, kind: webhookEndpointKind.kind, metadata: place, spec }
    try {
      return this.#applied(await resources.create(webhookEndpoints, object))
    } catch (error) {
      // An earlier call under this name has come as far.
      if (isApiError(error, 'AlreadyExists'))
        return this.#applied(await resources.get(webhookEndpoints, place))
      if (isOurs && !isApiError(error, 'Unavailable', 'TooManyRequests')) await this.#takeBackKey(place)
      throw refusalOfCreate(error)
    }
  }

  #applied(raw: RawObject): WebhookEndpoint {
    const endpoint = parseEndpoint(raw)
    this.#ctx.directory.apply(endpoint)
    return endpoint
  }

  /** Nobody has seen it. What stays all the same, the controller sweeps away. */
  async #takeBackKey(place: Place): Promise<void> {
    const { resources, namespace, log } = this.#ctx
    try {
      await resources.delete(secrets, { namespace, name: secretName(place.namespace, place.name) })
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

function answerOf(
  draft: EndpointDraft,
  name: string,
  { made, replayed }: { made?: Made; replayed: boolean },
): CreatedEndpoint {
  const endpoint = resourceOf(fresh(draft, name))
  if (!made) return { endpoint, replayed }
  return { endpoint, etag: etagOf(made.endpoint.metadata), secret: made.secret, replayed }
}
