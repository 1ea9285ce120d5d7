import { readRotateRequest } from '../../apis/annotations.ts'
import { type Secret, secret, secrets } from '../../apis/core-kinds.ts'
import { API_VERSION, isRestored, NO_BACKUP_LABEL } from '../../apis/meta.ts'
import {
  NO_ENDPOINT_YET,
  ROTATE_ANNOTATION,
  SIGNING_KEY_TYPE,
  SIGNING_KEYS_LABEL,
  SIGNING_KEYS_TYPE,
  SIGNING_SECRET_OWNER_LABEL,
  type SigningKeyFile,
  signingKeyFile,
  type WebhookEndpoint,
  webhookEndpointKind,
} from '../../apis/webhook-endpoint.ts'
import {
  findObject,
  isApiError,
  type RawObject,
  type ResourceReader,
  type ResourceWriter,
} from '../../kube/client.ts'
import type { EventRecorder } from '../../kube/recorder.ts'
import { withPeriod } from '../../lib/text.ts'
import type { Clock, Random } from '../../lib/time.ts'
import { activeKeys, MAX_ACTIVE_KEYS, rollKeys, type SigningKey } from '../sender/key-rotation.ts'
import { formatSecret, KEY_BYTES } from '../sender/signature.ts'
import {
  type EndpointDirectory,
  type EndpointIdentity,
  type EndpointKeys,
  type EndpointView,
  recordEndpointEvent,
  signingSecretName,
} from './directory.ts'
import { createdMs, type Problem } from './plan.ts'

/**
 * The signing keys of endpoints: created with the first pass, rotated on request, kept in one Secret per endpoint in the
 * controller's namespace, and written to the owner's Secret if the endpoint has `spec.signingSecret`.
 */

/** Keys with the endpoint that the name of their Secret stands for. */
export type StoredKeys = { namespace: string; endpoint: string; keys: EndpointKeys }

/** The Secret exists and contains no keys. It is left as it is, because it may be repaired. */
export class KeysDamagedError extends Error {
  override readonly name = 'KeysDamagedError'
  /** `<namespace>/<name>` */
  readonly secret: string

  constructor(secret: string) {
    super(`Secret ${secret} does not contain valid signing secrets`)
    this.secret = secret
  }
}

/** @throws KeysDamagedError, ZodError if the Secret is damaged or not one of ours */
export function readKeys(raw: RawObject): StoredKeys {
  const { metadata, data } = secret.parse(raw)
  const [namespace = '', endpoint = ''] = metadata.name.split('.')
  const { data: file } = signingKeyFile.safeParse(parseFile(data?.keys ?? ''))
  // Without its cause, whose message may contain a part of a key.
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
 * When a restore created this Secret, if one did: then the object is younger than its content. Its endpoint has another
 * UID by then, if it exists at all, so the UID in the file means nothing. Binding the keys to the current endpoint writes
 * `boundAt`, which is younger than the object again and so ends the special case.
 */
function restoredAtOf(
  { keys: [newest], boundAt }: SigningKeyFile,
  createdAt: string | undefined,
): string | undefined {
  if (!newest || createdAt === undefined) return undefined
  const written = Math.max(Date.parse(newest.createdAt) || 0, Date.parse(boundAt ?? '') || 0)
  return isRestored(written, Date.parse(createdAt)) ? createdAt : undefined
}

/** The Secret of an endpoint's keys. @param owner its `uid` is `NO_ENDPOINT_YET` before the endpoint exists */
export function keysObject(
  controllerNamespace: string,
  owner: EndpointIdentity,
  keys: readonly SigningKey[],
): RawObject {
  return {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: {
      namespace: controllerNamespace,
      name: signingSecretName(owner.namespace, owner.name),
      labels: { [SIGNING_KEYS_LABEL]: 'true' },
    },
    type: SIGNING_KEYS_TYPE,
    data: keysData(owner.uid, keys),
  }
}

/** The `data` of that Secret. @param boundAt if a restore created it */
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
   * Creates the Secret of an endpoint, or adopts an existing one: keys bound to this endpoint's UID stay, keys that were
   * created before their endpoint or restored are bound to it, and keys of a former endpoint of that name are replaced.
   * None stay if the endpoint was deleted in the meantime.
   * @throws KeysDamagedError if the existing Secret cannot be read
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
        await this.replace(endpoint, held.keys, held.version, held.restoredAt)
      else await this.replace(endpoint, keys, held.version)
    }
    // The handler of its deletion may have found no keys yet.
    if (!this.#directory.find({ namespace, name, uid })) await this.remove(namespace, name, uid)
  }

  /**
   * @param version of the Secret that `keys` is based on @param restoredAt if a restore created it
   * @throws ApiError `Conflict` if it has changed
   */
  async replace(
    { metadata }: WebhookEndpoint,
    keys: readonly SigningKey[],
    version: string,
    restoredAt?: string,
  ): Promise<void> {
    const { namespace = '', name, uid } = metadata
    const patch = { metadata: { resourceVersion: version }, data: keysData(uid, keys, restoredAt) }
    this.#apply(await this.#resources.patch(secrets, this.#refOf(namespace, name), patch))
  }

  /** Deletes the keys of a deleted endpoint; those of a new endpoint with its name stay. */
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
   * Deletes keys whose endpoint was deleted while no controller was running, or never created. Call it when all
   * endpoints are known. @param now milliseconds since 1970
   */
  async removeAbandoned(now: number): Promise<void> {
    for (const { namespace, name, keys } of this.#directory.keysWithoutEndpoint()) {
      const { restoredAt } = keys
      const [newest] = keys.keys
      const age = now - (Date.parse(restoredAt ?? newest?.createdAt ?? '') || 0)
      const graceMs = restoredAt === undefined ? ABANDONED_AFTER_MS : RESTORED_FOR_MS
      // Their endpoint may be about to be created.
      if (keys.endpointUid !== NO_ENDPOINT_YET || age > graceMs)
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
 * Keeps the keys in the Secret that the owner names in `spec.signingSecret`. Writes only keys that were created while it
 * was set, and only to a Secret that Davit created or that has the type for it.
 */
export class SharedSecrets {
  readonly #resources: ResourceReader & ResourceWriter
  readonly #directory: EndpointDirectory
  readonly #clock: Pick<Clock, 'now'>
  /** Last written content (or last check, without keys to write), by endpoint UID: an unchanged Secret costs no call. */
  readonly #written = new Map<string, string>()

  constructor(
    resources: ResourceReader & ResourceWriter,
    directory: EndpointDirectory,
    clock: Pick<Clock, 'now'>,
  ) {
    this.#resources = resources
    this.#directory = directory
    this.#clock = clock
  }

  /** @returns why the Secret cannot be written, for the endpoint's condition */
  async sync(endpoint: WebhookEndpoint, keys: readonly SigningKey[]): Promise<Problem | undefined> {
    const { uid } = endpoint.metadata
    const wanted = endpoint.spec.signingSecret
    if (!wanted) {
      this.#written.delete(uid)
      return undefined
    }
    const shared = activeKeys(keys, this.#clock.now()).filter((key) => key.shared)
    const data = shared.length > 0 ? sharedData(shared) : undefined
    const stamp = JSON.stringify([wanted.name, data])
    if (this.#written.get(uid) === stamp) return undefined
    const problem = data
      ? await this.#write(endpoint, wanted.name, data)
      : await this.#check(endpoint, wanted.name)
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
    const { namespace = '', uid } = endpoint.metadata
    try {
      await this.#resources.create(secrets, sharedSecret(endpoint, name, data))
      return undefined
    } catch (error) {
      if (isApiError(error, 'Forbidden', 'Quota')) return secretRefused(name, error.message)
      if (!isApiError(error, 'AlreadyExists')) throw error
    }
    const held = await this.#read(endpoint, name)
    const problem = this.#conflictOf(endpoint, name, held)
    if (problem) return problem
    const { resourceVersion } = held?.metadata ?? {}
    const labels = { [SIGNING_SECRET_OWNER_LABEL]: uid }
    try {
      const patch = { metadata: { resourceVersion, labels }, data }
      await this.#resources.patch(secrets, { namespace, name }, patch)
      return undefined
    } catch (error) {
      if (isApiError(error, 'Forbidden', 'Invalid', 'BadRequest')) return secretRefused(name, error.message)
      throw error
    }
  }

  async #read(endpoint: WebhookEndpoint, name: string): Promise<Secret | undefined> {
    const found = await findObject(this.#resources, secrets, { namespace: endpoint.metadata.namespace, name })
    return found && secret.parse(found)
  }

  /** Without keys to write: what would prevent the next write. */
  async #check(endpoint: WebhookEndpoint, name: string): Promise<Problem | undefined> {
    try {
      return this.#conflictOf(endpoint, name, await this.#read(endpoint, name))
    } catch (error) {
      if (isApiError(error, 'Forbidden')) return secretRefused(name, error.message)
      throw error
    }
  }

  /** Secrets that Davit created have the type too. Two endpoints with one Secret would keep overwriting each other's keys. */
  #conflictOf(endpoint: WebhookEndpoint, name: string, held: Secret | undefined): Problem | undefined {
    if (!held) return undefined
    if (held.type !== SIGNING_KEY_TYPE) {
      const reason = `the Secret already exists with another type. Choose another name in spec.signingSecret, or recreate the Secret with the type ${SIGNING_KEY_TYPE}.`
      return secretRefused(name, reason)
    }
    const owner = held.metadata.labels?.[SIGNING_SECRET_OWNER_LABEL]
    const other = this.#directory
      .inNamespace(endpoint.metadata.namespace ?? '')
      .map((view) => view.endpoint)
      .find(({ metadata, spec }) => metadata.uid === owner && spec.signingSecret?.name === name)
    if (!other || owner === endpoint.metadata.uid) return undefined
    const reason = `the Secret belongs to the endpoint ${other.metadata.name}. Choose another name in spec.signingSecret.`
    return secretRefused(name, reason)
  }
}

/** `signingSecret` is the newest key; `signingSecrets` has all active keys, newest first, one per line. */
function sharedData(keys: readonly SigningKey[]): Record<string, string> {
  const base64 = (text: string) => Buffer.from(text).toString('base64')
  return {
    signingSecret: base64(keys[0]?.secret ?? ''),
    signingSecrets: base64(keys.map((key) => key.secret).join('\n')),
  }
}

function sharedSecret(endpoint: WebhookEndpoint, name: string, data: Record<string, string>): RawObject {
  const { namespace = '', uid } = endpoint.metadata
  const owner = { apiVersion: API_VERSION, kind: webhookEndpointKind.kind, name: endpoint.metadata.name, uid }
  // A restored copy would belong to an endpoint that no longer exists; Davit creates it again.
  const labels = { [SIGNING_SECRET_OWNER_LABEL]: uid, [NO_BACKUP_LABEL]: 'true' }
  return {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name, namespace, labels, ownerReferences: [owner] },
    type: SIGNING_KEY_TYPE,
    data,
  }
}

/** How the API server, unlike a quota or a policy, words a missing right. */
const NO_RIGHT = / cannot \w+ resource "secrets"/
const BIND_IT =
  'Davit does not have access to Secrets in this namespace. Ask your cluster operator to bind the ClusterRole davit-organization-secrets to the Davit controller in this namespace.'

function secretRefused(name: string, reason: string): Problem {
  const why = NO_RIGHT.test(reason) ? BIND_IT : reason
  return {
    reason: 'CannotWriteSigningSecret',
    message: withPeriod(`Davit cannot write to the Secret ${name} (spec.signingSecret): ${why}`),
  }
}

export type KeyResult = {
  problems: Problem[]
  handled: { rotate?: string }
  /** This pass created a key on request. */
  rolled: boolean
  /** Milliseconds since 1970: when the next key expires, or a problem may be solved. */
  requeueAt?: number | undefined
}

/** No watch reports that a Secret in the way is gone. */
const PROBLEM_RETRY_MS = 60_000

export type SigningKeyOptions = {
  keyStore: SigningKeyStore
  sharedSecrets: SharedSecrets
  recorder: EventRecorder
  clock: Clock
  random: Random
}

/** Creates the first key of an endpoint, rotates on request, and updates the owner's Secret. */
export class SigningKeyReconciler {
  readonly #options: SigningKeyOptions

  constructor(options: SigningKeyOptions) {
    this.#options = options
  }

  /** @throws ApiError if a retry may succeed, including a conflict with another writer of the keys */
  async reconcile(view: EndpointView): Promise<KeyResult> {
    const { endpoint } = view
    if (!view.keys) return await this.#create(endpoint)
    const { sharedSecrets, clock } = this.#options
    const rotation = await this.#rotate(endpoint, view.keys)
    const keys = rotation.keys ?? view.keys.keys
    const problem = await sharedSecrets.sync(endpoint, keys)
    const now = clock.now()
    const times = activeKeys(keys, now).flatMap(({ expiresAt }) => (expiresAt ? [Date.parse(expiresAt)] : []))
    if (problem) times.push(now + PROBLEM_RETRY_MS)
    return {
      problems: problem ? [problem] : [],
      handled: rotation.handled,
      rolled: rotation.keys !== undefined,
      requeueAt: times.length > 0 ? Math.min(...times) : undefined,
    }
  }

  async #create(endpoint: WebhookEndpoint): Promise<KeyResult> {
    try {
      await this.#options.keyStore.create(endpoint, [this.#newKey(endpoint)])
      // A rotation that was requested along with the creation is satisfied by the first key.
      const { request } = rotateRequestOf(endpoint)
      const handled = request.kind === 'none' ? {} : { rotate: request.value }
      return { problems: [], handled, rolled: false }
    } catch (error) {
      if (!(error instanceof KeysDamagedError)) throw error
      const message = `Davit is not sending anything to this endpoint: the Secret ${error.secret}, which holds its signing secrets, does not contain valid data. Ask your cluster operator to restore the Secret, or to delete it so that Davit can create a new signing secret.`
      const problems: Problem[] = [{ reason: 'SigningSecretsUnreadable', message }]
      return { problems, handled: {}, rolled: false, requeueAt: this.#options.clock.now() + PROBLEM_RETRY_MS }
    }
  }

  async #rotate(
    endpoint: WebhookEndpoint,
    held: EndpointKeys,
  ): Promise<{ keys?: SigningKey[]; handled: { rotate?: string } }> {
    const { keyStore, recorder, clock, random } = this.#options
    const { request, expireOld } = rotateRequestOf(endpoint)
    const emit = (type: 'Normal' | 'Warning', reason: string, message: string) =>
      recordEndpointEvent(recorder, endpoint, type, reason, message)
    if (request.kind === 'none') return { handled: {} }
    if (request.kind === 'invalid')
      emit('Warning', 'InvalidRequest', `${ROTATE_ANNOTATION}: ${request.message}`)
    if (request.kind !== 'new') return { handled: { rotate: request.value } }
    const roll = {
      secret: formatSecret(random.bytes(KEY_BYTES)),
      expireOld,
      request: request.value,
      shared: endpoint.spec.signingSecret !== undefined,
    }
    const result = rollKeys(held.keys, roll, clock.now())
    if (result.kind === 'tooMany') {
      const message = `The endpoint has reached its limit of ${MAX_ACTIVE_KEYS} active signing secrets. Wait until one expires, or set the annotation ${ROTATE_ANNOTATION} to the current time followed by ";expire-old", for example "2026-01-31T12:00:00Z;expire-old".`
      emit('Warning', 'TooManySigningSecrets', message)
    }
    if (result.kind !== 'rolled') return { handled: { rotate: request.value } }
    await keyStore.replace(endpoint, result.keys, held.version)
    const message = expireOld
      ? 'A new signing secret is active. Earlier signing secrets are no longer valid.'
      : 'A new signing secret is active. For 24 hours, Davit will also sign with the earlier ones.'
    emit('Normal', 'SigningSecretRotated', message)
    return { keys: result.keys, handled: { rotate: request.value } }
  }

  #newKey(endpoint: WebhookEndpoint): SigningKey {
    return {
      secret: formatSecret(this.#options.random.bytes(KEY_BYTES)),
      createdAt: new Date(this.#options.clock.now()).toISOString(),
      ...(endpoint.spec.signingSecret ? { shared: true } : {}),
    }
  }
}

function rotateRequestOf({ metadata, status }: WebhookEndpoint) {
  const value = metadata.annotations?.[ROTATE_ANNOTATION]
  return readRotateRequest(value, status?.lastHandled?.rotate, createdMs(metadata))
}
