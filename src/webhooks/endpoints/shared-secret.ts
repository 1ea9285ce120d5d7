/**
 * `spec.signingSecret`: the owner's wish to have the keys in the cluster. Only keys made while it was set are
 * ever shown, and only a Secret that Davit made, or one of the type that says so, is written.
 */
import { type Secret, secret, secrets } from '../../apis/core-kinds.ts'
import { API_VERSION, NO_BACKUP_LABEL } from '../../apis/meta.ts'
import { SIGNING_KEY_TYPE, SIGNING_SECRET_OWNER_LABEL } from '../../apis/signing-keys.ts'
import { type WebhookEndpoint, webhookEndpointKind } from '../../apis/webhook-endpoint.ts'
import { isApiError, type RawObject, type ResourceReader, type ResourceWriter } from '../../kube/client.ts'
import type { Clock } from '../../lib/ports-clock.ts'
import { activeKeys, type SigningKey } from '../sender/signature.ts'
import type { EndpointDirectory } from './directory.ts'
import type { Problem } from './plan.ts'

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
