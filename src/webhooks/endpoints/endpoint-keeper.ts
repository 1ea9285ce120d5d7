/** Keeps the signing keys of an endpoint: makes the first, rolls on request, forgets expired ones, shares them where asked. */

import { readRequest } from '../../apis/annotations.ts'
import {
  ROLL_ANNOTATION,
  ROLL_EXPIRE_OLD_ANNOTATION,
  type WebhookEndpoint,
} from '../../apis/webhook-endpoint.ts'
import type { EventRecorder } from '../../kube/event-recorder.ts'
import type { Clock, Random } from '../../lib/ports-clock.ts'
import { formatSecret, KEY_BYTES } from '../sender/domain-signature.ts'
import { activeKeys, MAX_ACTIVE_KEYS, rollKeys, type SigningKey } from '../sender/signature.ts'
import { endpointReference } from './about-endpoint.ts'
import type { EndpointKeys, EndpointView } from './directory.ts'
import type { Problem } from './plan.ts'
import type { SharedSecrets } from './shared-secret.ts'
import { KeysDamagedError, type SigningKeyStore } from './signing-keys.ts'

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
