/** The Secrets, in the operator's namespace, that hold the signing keys of endpoints. */
import { secret, secrets } from '../../apis/core-kinds.ts'
import { isRestored } from '../../apis/restored.ts'
import {
  NO_ENDPOINT_YET,
  SIGNING_KEYS_LABEL,
  SIGNING_KEYS_TYPE,
  type SigningKeyFile,
  signingKeyFile,
} from '../../apis/signing-keys.ts'
import type { WebhookEndpoint } from '../../apis/webhook-endpoint.ts'
import { isApiError, type RawObject, type ResourceReader, type ResourceWriter } from '../../kube/client.ts'
import type { SigningKey } from '../sender/signature.ts'
import { type EndpointDirectory, type EndpointKeys, signingSecretName } from './directory.ts'

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
