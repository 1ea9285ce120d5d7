import { readRequest } from '../../apis/annotations.ts'
import { type Secret, secret, secrets } from '../../apis/core-kinds.ts'
import { API_VERSION, isRestored, NO_BACKUP_LABEL } from '../../apis/meta.ts'
import {
  NO_ENDPOINT_YET,
  ROLL_ANNOTATION,
  ROLL_EXPIRE_OLD_ANNOTATION,
  SIGNING_KEY_TYPE,
  SIGNING_KEYS_LABEL,
  SIGNING_KEYS_TYPE,
  SIGNING_SECRET_OWNER_LABEL,
  type SigningKeyFile,
  signingKeyFile,
  type WebhookEndpoint,
  webhookEndpointKind,
} from '../../apis/webhook-endpoint.ts'
import { isApiError, type RawObject, type ResourceReader, type ResourceWriter } from '../../kube/client.ts'
import type { EventRecorder } from '../../kube/recorder.ts'
import type { Clock, Random } from '../../lib/clock.ts'
import {
  activeKeys,
  formatSecret,
  KEY_BYTES,
  MAX_ACTIVE_KEYS,
  rollKeys,
  type SigningKey,
} from '../sender/signature.ts'
import {
  type EndpointDirectory,
  type EndpointKeys,
  type EndpointView,
  endpointReference,
  signingSecretName,
} from './directory.ts'
import type { Problem } from './plan.ts'

/** The Secrets, in the operator's namespace, that hold the signing keys of endpoints. */

/** Keys as they were read, with the endpoint that their Secret's name stands for. */
export type StoredKeys = { namespace: string; endpoint: string; keys: EndpointKeys }

/** The Secret is there, and what it holds are no keys. Kept as it is: it may be mended. */
export class KeysDamagedError extends Error {
  override readonly name = 'KeysDamagedError'
  /** `<namespace>/<name>` */
  readonly secret: string

  constructor(secret: string) {
    super(`the Secret ${secret} holds no signing keys`)
    this.secret = secret
  }
}

/** @throws KeysDamagedError, ZodError when the Secret is none of ours or damaged */
export function readKeys(raw: RawObject): StoredKeys {
  const { metadata, data } = secret.parse(raw)
  const [namespace = '', endpoint = ''] = metadata.name.split('.')
  const { data: file } = signingKeyFile.safeParse(parseFile(data?.keys ?? ''))
  // Without its cause, whose words may have a part of a key.
  if (!file) throw new KeysDamagedError(`${metadata.namespace}/${metadata.name}`)
  const { keys, endpointUid } = file
  const restoredAt = restoredAtOf(file, metadata.creationTimestamp)
  return {
    namespace,
    endpoint,
    keys: {
      endpointUid: restoredAt === undefined ? endpointUid : NO_ENDPOINT_YET,
      keys,
      version: metadata.resourceVersion,
      ...(restoredAt === undefined ? {} : { restoredAt }),
    },
  }
}

/**
 * When a restore made this Secret; absent where none did. A restore is known by an object that is younger than what is
 * written in it. Its endpoint has another UID by then, if it is there at all, so the UID in the file says nothing. Binding
 * the keys to today's endpoint writes `boundAt`, which is younger than the object again, and so ends the special case.
 */
function restoredAtOf(
  { keys: [newest], boundAt }: SigningKeyFile,
  createdAt: string | undefined,
): string | undefined {
  if (!newest || createdAt === undefined) return undefined
  const written = Math.max(Date.parse(newest.createdAt) || 0, Date.parse(boundAt ?? '') || 0)
  return isRestored(written, Date.parse(createdAt)) ? createdAt : undefined
}

/** Which endpoint keys are for. `uid` is `NO_ENDPOINT_YET` before it is made. */
export type KeyOwner = { namespace: string; name: string; uid: string }

/** The Secret of an endpoint's keys. @param operatorNamespace where it lies */
export function keysObject(
  operatorNamespace: string,
  { namespace, name, uid }: KeyOwner,
  keys: readonly SigningKey[],
): RawObject {
  return {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: {
      namespace: operatorNamespace,
      name: signingSecretName(namespace, name),
      labels: { [SIGNING_KEYS_LABEL]: 'true' },
    },
    type: SIGNING_KEYS_TYPE,
    data: keysData(uid, keys),
  }
}

/** The `data` of that Secret. @param boundAt of one that a restore has made */
export function keysData(
  endpointUid: string,
  keys: readonly SigningKey[],
  boundAt?: string | undefined,
): { keys: string } {
  return { keys: Buffer.from(JSON.stringify({ endpointUid, keys, boundAt })).toString('base64') }
}

/** @param text JSON in base64 */
function parseFile(text: string): unknown {
  try {
    return JSON.parse(Buffer.from(text, 'base64').toString('utf8'))
  } catch {
    return undefined
  }
}

const ABANDONED_AFTER_MS = 10 * 60_000
/** A restore may be one of many steps, and Davit may run before the last. */
const RESTORED_FOR_MS = 24 * 60 * 60_000

export class SigningKeyStore {
  readonly #resources: ResourceReader & ResourceWriter
  readonly #directory: EndpointDirectory
  readonly #namespace: string

  constructor(resources: ResourceReader & ResourceWriter, directory: EndpointDirectory, namespace: string) {
    this.#resources = resources
    this.#directory = directory
    this.#namespace = namespace
  }

  /**
   * Makes the Secret of an endpoint that has none, or takes over what is there: keys bound to this endpoint's UID
   * stay, those made before their endpoint and those that were restored are bound to it, those of one that had the name
   * before are replaced. None stay when the endpoint has gone meanwhile.
   * @throws KeysDamagedError when what is there cannot be read
   */
  async create(endpoint: WebhookEndpoint, keys: readonly SigningKey[]): Promise<void> {
    const { namespace = '', name, uid } = endpoint.metadata
    try {
      const object = keysObject(this.#namespace, { namespace, name, uid }, keys)
      this.#apply(await this.#resources.create(secrets, object))
    } catch (error) {
      if (!isApiError(error, 'AlreadyExists')) throw error
      const { keys: held } = readKeys(await this.#resources.get(secrets, this.#refOf(namespace, name)))
      if (held.endpointUid === uid) this.#directory.applyKeys(namespace, name, held)
      else if (held.endpointUid === NO_ENDPOINT_YET)
        await this.#bind(endpoint, keysData(uid, held.keys, held.restoredAt), held.version)
      else await this.replace(endpoint, keys, held.version)
    }
    // Whoever saw it go may have found no keys yet.
    if (!this.#directory.find({ namespace, name, uid })) await this.remove(namespace, name, uid)
  }

  /** @param version of the Secret that `keys` was decided on @throws ApiError `Conflict` when it has moved on */
  async replace(endpoint: WebhookEndpoint, keys: readonly SigningKey[], version: string): Promise<void> {
    await this.#bind(endpoint, keysData(endpoint.metadata.uid, keys), version)
  }

  async #bind({ metadata }: WebhookEndpoint, data: { keys: string }, version: string): Promise<void> {
    const { namespace = '', name } = metadata
    const patch = { metadata: { resourceVersion: version }, data }
    this.#apply(await this.#resources.patch(secrets, this.#refOf(namespace, name), patch))
  }

  /** Takes away the keys of an endpoint that is gone; those of one recreated under its name stay. */
  async remove(namespace: string, name: string, endpointUid: string): Promise<void> {
    try {
      const held = readKeys(await this.#resources.get(secrets, this.#refOf(namespace, name)))
      if (held.keys.endpointUid !== endpointUid) return
      await this.#resources.delete(secrets, this.#refOf(namespace, name), {
        resourceVersion: held.keys.version,
      })
      this.#directory.removeKeys(namespace, name, Number(held.keys.version))
    } catch (error) {
      if (!isApiError(error, 'NotFound', 'Conflict')) throw error
    }
  }

  /**
   * Takes away keys whose endpoint went while nobody watched, or was never made. Call it when all endpoints are
   * known. @param now milliseconds since 1970
   */
  async removeAbandoned(now: number): Promise<void> {
    for (const { namespace, name, keys } of this.#directory.keysWithoutEndpoint()) {
      const { restoredAt } = keys
      const [newest] = keys.keys
      const age = now - (Date.parse(restoredAt ?? newest?.createdAt ?? '') || 0)
      const patience = restoredAt === undefined ? ABANDONED_AFTER_MS : RESTORED_FOR_MS
      // Whoever made them may be about to make their endpoint.
      if (keys.endpointUid !== NO_ENDPOINT_YET || age > patience)
        await this.remove(namespace, name, keys.endpointUid)
    }
  }

  #apply(raw: RawObject): void {
    const { namespace, endpoint, keys } = readKeys(raw)
    this.#directory.applyKeys(namespace, endpoint, keys)
  }

  #refOf(namespace: string, name: string) {
    return { namespace: this.#namespace, name: signingSecretName(namespace, name) }
  }
}

/**
 * `spec.signingSecret`: the owner's wish to have the keys in the cluster. Only keys made while it was set are
 * ever shown, and only a Secret that Davit made, or one of the type that says so, is written.
 */

export type SharedSecretsOptions = {
  resources: ResourceReader & ResourceWriter
  directory: EndpointDirectory
  clock: Clock
}

export class SharedSecrets {
  readonly #options: SharedSecretsOptions
  /** What was written (or, without keys to show, looked at) last, by endpoint UID, so that an unchanged Secret costs no call. */
  readonly #written = new Map<string, string>()

  constructor(options: SharedSecretsOptions) {
    this.#options = options
  }

  /** @returns why the Secret was not or cannot be written, for the endpoint's condition */
  async sync(endpoint: WebhookEndpoint, keys: readonly SigningKey[]): Promise<Problem | undefined> {
    const { uid } = endpoint.metadata
    const wanted = endpoint.spec.signingSecret
    if (!wanted) {
      this.#written.delete(uid)
      return undefined
    }
    const shared = activeKeys(keys, this.#options.clock.now()).filter((key) => key.shared)
    const data = shared.length > 0 ? dataOf(shared) : undefined
    const stamp = JSON.stringify([wanted.name, data])
    if (this.#written.get(uid) === stamp) return undefined
    const problem = data
      ? await this.#write(endpoint, wanted.name, data)
      : await this.#look(endpoint, wanted.name)
    if (!problem) this.#written.set(uid, stamp)
    return problem
  }

  forget(endpointUid: string): void {
    this.#written.delete(endpointUid)
  }

  async #write(
    endpoint: WebhookEndpoint,
    name: string,
    data: Record<string, string>,
  ): Promise<Problem | undefined> {
    const { resources } = this.#options
    const { namespace = '', uid } = endpoint.metadata
    try {
      await resources.create(secrets, objectOf(endpoint, name, data))
      return undefined
    } catch (error) {
      if (isApiError(error, 'Forbidden', 'Quota')) return refusal(name, error.message)
      if (!isApiError(error, 'AlreadyExists')) throw error
    }
    const held = await this.#read(endpoint, name)
    const problem = this.#refusalOf(endpoint, name, held)
    if (problem) return problem
    const { resourceVersion } = held?.metadata ?? {}
    const labels = { [SIGNING_SECRET_OWNER_LABEL]: uid }
    try {
      await resources.patch(secrets, { namespace, name }, { metadata: { resourceVersion, labels }, data })
      return undefined
    } catch (error) {
      if (isApiError(error, 'Forbidden', 'Invalid', 'BadRequest')) return refusal(name, error.message)
      throw error
    }
  }

  async #read(endpoint: WebhookEndpoint, name: string): Promise<Secret | undefined> {
    const { namespace } = endpoint.metadata
    try {
      return secret.parse(await this.#options.resources.get(secrets, { namespace, name }))
    } catch (error) {
      if (isApiError(error, 'NotFound')) return undefined
      throw error
    }
  }

  /** Without keys to show: what would be in the way of the next. */
  async #look(endpoint: WebhookEndpoint, name: string): Promise<Problem | undefined> {
    try {
      return this.#refusalOf(endpoint, name, await this.#read(endpoint, name))
    } catch (error) {
      if (isApiError(error, 'Forbidden')) return refusal(name, error.message)
      throw error
    }
  }

  /** Davit's own have the type as well. Two endpoints in one Secret would take turns in overwriting it. */
  #refusalOf(endpoint: WebhookEndpoint, name: string, held: Secret | undefined): Problem | undefined {
    if (!held) return undefined
    if (held.type !== SIGNING_KEY_TYPE) {
      const why = `it exists and is not of type ${SIGNING_KEY_TYPE}; name another one, or make it with that type`
      return refusal(name, why)
    }
    const owner = held.metadata.labels?.[SIGNING_SECRET_OWNER_LABEL]
    const other = this.#options.directory
      .inNamespace(endpoint.metadata.namespace ?? '')
      .map((view) => view.endpoint)
      .find(({ metadata, spec }) => metadata.uid === owner && spec.signingSecret?.name === name)
    if (!other || owner === endpoint.metadata.uid) return undefined
    return refusal(name, `it has the keys of the endpoint ${other.metadata.name}; name another one`)
  }
}

/** `signingSecret` is the newest key; `signingSecrets` all in force, newest first, one a line. */
function dataOf(keys: readonly SigningKey[]): Record<string, string> {
  const base64 = (text: string) => Buffer.from(text).toString('base64')
  return {
    signingSecret: base64(keys[0]?.secret ?? ''),
    signingSecrets: base64(keys.map((key) => key.secret).join('\n')),
  }
}

function objectOf(endpoint: WebhookEndpoint, name: string, data: Record<string, string>): RawObject {
  const { namespace = '', uid } = endpoint.metadata
  const owner = { apiVersion: API_VERSION, kind: webhookEndpointKind.kind, name: endpoint.metadata.name, uid }
  // After a restore it would be the property of an endpoint that is not there any more; Davit makes it anew.
  const labels = { [SIGNING_SECRET_OWNER_LABEL]: uid, [NO_BACKUP_LABEL]: 'true' }
  return {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name, namespace, labels, ownerReferences: [owner] },
    type: SIGNING_KEY_TYPE,
    data,
  }
}

/** A right that is missing, in the words of the API server, which a quota or a policy has not. */
const NO_RIGHT = / cannot \w+ resource "secrets"/
const BIND_IT =
  'Davit has the right to Secrets where it was given it. Whoever runs Davit binds the ClusterRole davit-organization-secrets to its controller in this namespace.'

function refusal(name: string, said: string): Problem {
  const why = NO_RIGHT.test(said) ? BIND_IT : said
  return {
    reason: 'SigningSecretRefused',
    message: `spec.signingSecret: the Secret ${name} cannot be written: ${why}`,
  }
}

/** Keeps the signing keys of an endpoint: makes the first, rolls on request, forgets expired ones, shares them where asked. */

export type SigningKeyReconcilerOptions = {
  store: SigningKeyStore
  shared: SharedSecrets
  events: EventRecorder
  clock: Clock
  random: Random
}

export type KeyResult = {
  problems: Problem[]
  handled: { roll?: string }
  /** A key was made by a roll in this pass. */
  rolled: boolean
  /** When to look again though nothing changed, milliseconds since 1970: the next key ends, or what was refused may be mended. */
  lookAgainAt?: number | undefined
}

/** Nothing tells when a Secret that was refused is gone. */
const REFUSED_AGAIN_MS = 60_000

export class SigningKeyReconciler {
  readonly #options: SigningKeyReconcilerOptions

  constructor(options: SigningKeyReconcilerOptions) {
    this.#options = options
  }

  /** @throws ApiError what may pass by itself, a conflict with another writer of the keys included */
  async reconcile(view: EndpointView): Promise<KeyResult> {
    const { endpoint } = view
    if (!view.keys) return await this.#create(endpoint)
    const kept = await this.#roll(endpoint, view.keys)
    const keys = kept.keys ?? view.keys.keys
    const problem = await this.#options.shared.sync(endpoint, keys)
    const now = this.#options.clock.now()
    const times = activeKeys(keys, now).flatMap(({ expiresAt }) => (expiresAt ? [Date.parse(expiresAt)] : []))
    if (problem) times.push(now + REFUSED_AGAIN_MS)
    return {
      problems: problem ? [problem] : [],
      handled: kept.handled,
      rolled: kept.keys !== undefined,
      lookAgainAt: times.length > 0 ? Math.min(...times) : undefined,
    }
  }

  async #create(endpoint: WebhookEndpoint): Promise<KeyResult> {
    try {
      await this.#options.store.create(endpoint, [this.#freshKey(endpoint)])
      return { problems: [], handled: this.#oldRoll(endpoint), rolled: false }
    } catch (error) {
      if (!(error instanceof KeysDamagedError)) throw error
      const message = `Nothing is sent: the Secret ${error.secret}, which holds the signing keys, cannot be read. Whoever runs Davit can restore it, or delete it for a new key.`
      const lookAgainAt = this.#options.clock.now() + REFUSED_AGAIN_MS
      return {
        problems: [{ reason: 'SigningKeysDamaged', message }],
        handled: {},
        rolled: false,
        lookAgainAt,
      }
    }
  }

  async #roll(
    endpoint: WebhookEndpoint,
    held: EndpointKeys,
  ): Promise<{ keys?: SigningKey[]; handled: { roll?: string } }> {
    const request = this.#request(endpoint)
    const { clock, events, random, store } = this.#options
    if (request.kind === 'none') return { handled: {} }
    if (request.kind === 'invalid') {
      const message = `${ROLL_ANNOTATION}: ${request.message}`
      events.record(endpointReference(endpoint.metadata), {
        type: 'Warning',
        reason: 'InvalidRequest',
        message,
      })
    }
    if (request.kind !== 'new') return { handled: { roll: request.value } }
    const roll = {
      secret: formatSecret(random.bytes(KEY_BYTES)),
      expireOld: endpoint.metadata.annotations?.[ROLL_EXPIRE_OLD_ANNOTATION] === 'true',
      request: request.value,
      shared: endpoint.spec.signingSecret !== undefined,
    }
    const result = rollKeys(held.keys, roll, clock.now())
    if (result.kind === 'tooMany') {
      const message = `${MAX_ACTIVE_KEYS} keys are in force; wait until one ends, or roll with ${ROLL_EXPIRE_OLD_ANNOTATION}=true`
      events.record(endpointReference(endpoint.metadata), {
        type: 'Warning',
        reason: 'TooManySigningKeys',
        message,
      })
    }
    if (result.kind !== 'rolled') return { handled: { roll: request.value } }
    await store.replace(endpoint, result.keys, held.version)
    const message = roll.expireOld
      ? 'A new signing key is in force; earlier keys are invalid from now on.'
      : 'A new signing key is in force; earlier keys go on signing beside it for 24 hours.'
    events.record(endpointReference(endpoint.metadata), {
      type: 'Normal',
      reason: 'SigningKeyRolled',
      message,
    })
    return { keys: result.keys, handled: { roll: request.value } }
  }

  #request(endpoint: WebhookEndpoint) {
    const { annotations, creationTimestamp } = endpoint.metadata
    return readRequest(
      annotations?.[ROLL_ANNOTATION],
      endpoint.status?.lastHandled?.roll,
      Date.parse(creationTimestamp ?? '') || 0,
    )
  }

  /** A roll asked for together with the creation is answered by the first key. */
  #oldRoll(endpoint: WebhookEndpoint): { roll?: string } {
    const request = this.#request(endpoint)
    return request.kind === 'none' ? {} : { roll: request.value }
  }

  #freshKey(endpoint: WebhookEndpoint): SigningKey {
    const { clock, random } = this.#options
    return {
      secret: formatSecret(random.bytes(KEY_BYTES)),
      createdAt: new Date(clock.now()).toISOString(),
      ...(endpoint.spec.signingSecret ? { shared: true } : {}),
    }
  }
}
