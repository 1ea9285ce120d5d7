/**
 * `spec.signingSecret`: the owner's wish to have the keys in the cluster. Only keys made while it was set are
 * ever shown, and only a Secret that Davit made, or one of the type that says so, is written.
 */
import { secret, secrets } from '../../api/core-kinds.ts'
import { API_VERSION } from '../../api/meta.ts'
import { SIGNING_KEY_TYPE, SIGNING_SECRET_OWNER_LABEL } from '../../api/signing-keys.ts'
import { type WebhookEndpoint, webhookEndpointKind } from '../../api/webhook-endpoint.ts'
import type { Problem } from '../../domain/endpoint-conditions.ts'
import { activeKeys, type SigningKey } from '../../domain/signing-keys.ts'
import type { Clock } from '../../ports/clock.ts'
import {
  isApiError,
  type RawObject,
  type ResourceReader,
  type ResourceWriter,
} from '../../ports/kubernetes.ts'

export class SharedSecrets {
  readonly #resources: ResourceReader & ResourceWriter
  readonly #clock: Clock
  /** What was written last, by endpoint UID, so that an unchanged Secret costs no call. */
  readonly #written = new Map<string, string>()

  constructor(resources: ResourceReader & ResourceWriter, clock: Clock) {
    this.#resources = resources
    this.#clock = clock
  }

  /** @returns why the Secret was not written, for the endpoint's condition */
  async fill(endpoint: WebhookEndpoint, keys: readonly SigningKey[]): Promise<Problem | undefined> {
    const wanted = endpoint.spec.signingSecret
    if (!wanted) return undefined
    const shared = activeKeys(keys, this.#clock.now()).filter((key) => key.shared)
    if (shared.length === 0) return undefined
    const data = dataOf(shared)
    const stamp = JSON.stringify([wanted.name, data])
    const { uid } = endpoint.metadata
    if (this.#written.get(uid) === stamp) return undefined
    const problem = await this.#write(endpoint, wanted.name, data)
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
      await this.#resources.create(secrets, objectOf(endpoint, name, data))
      return undefined
    } catch (error) {
      if (isApiError(error, 'Forbidden', 'Quota')) return refusal(name, error.message)
      if (!isApiError(error, 'AlreadyExists')) throw error
    }
    const held = secret.parse(await this.#resources.get(secrets, { namespace, name }))
    const ours = held.metadata.labels?.[SIGNING_SECRET_OWNER_LABEL] === uid
    if (!ours && held.type !== SIGNING_KEY_TYPE) {
      return refusal(
        name,
        `it exists and is not of type ${SIGNING_KEY_TYPE}; name another one, or make it with that type`,
      )
    }
    const patch = { metadata: { resourceVersion: held.metadata.resourceVersion }, data }
    await this.#resources.patch(secrets, { namespace, name }, patch)
    return undefined
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
  return {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name, namespace, labels: { [SIGNING_SECRET_OWNER_LABEL]: uid }, ownerReferences: [owner] },
    type: SIGNING_KEY_TYPE,
    data,
  }
}

function refusal(name: string, why: string): Problem {
  return {
    reason: 'SigningSecretRefused',
    message: `spec.signingSecret: the Secret ${name} cannot be written: ${why}`,
  }
}
