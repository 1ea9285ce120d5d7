import { LRUCache } from 'lru-cache'
import type { WebhookEndpoint } from '../apis/webhook-endpoint.ts'
import type { ResourceReader, ResourceWriter } from '../kube/client.ts'
import type { Logger } from '../lib/log.ts'
import { type Clock, type Random, Waiters } from '../lib/time.ts'
import type { UrlPolicy } from '../net/egress-policy.ts'
import type { EndpointDirectory } from '../webhooks/endpoints/directory.ts'
import type { EventTypeStore } from '../webhooks/endpoints/event-types.ts'
import { fingerprintOf } from '../webhooks/sender/signature.ts'
import { Problem } from './http/problems.ts'
import type { Idempotency } from './idempotency.ts'
import type { ReplicaBarrier } from './replica-barrier.ts'

/**
 * What the writers of endpoints share: they wait until the controller has handled a change, so that it is in effect when the
 * client reads the response.
 */

export type EndpointServiceOptions = {
  resources: ResourceReader & ResourceWriter
  /** Davit's own namespace. */
  namespace: string
  /** Endpoints of all organizations, from the watch and from our own writes. */
  directory: EndpointDirectory
  /** Why the directory may be out of date, in words; undefined while it is not. */
  behind: () => string | undefined
  catalogue: Pick<EventTypeStore, 'unknown'>
  urlGuard: Pick<UrlPolicy, 'check'>
  keys: Idempotency
  replicas: ReplicaBarrier
  /** Whether a controller runs that has to stop sending before an endpoint is deleted. */
  controllers: { anyLives(): Promise<boolean> }
  /** Endpoints that an organization may have. */
  maxEndpoints: number
  clock: Clock
  random: Random
  log: Logger
}

export type EndpointsContext = EndpointServiceOptions & {
  acknowledgements: EndpointAcknowledgements
  undisclosed: UndisclosedSecrets
}

/** How long the controller may take to acknowledge a change (interface S2). */
export const ACKNOWLEDGED_WITHIN_MS = 5000
const RETRY_AFTER_SECONDS = 2

/** Waits for the controller, which reports what it has handled in the status. */
export class EndpointAcknowledgements {
  readonly #directory: EndpointDirectory
  /** By UID. */
  readonly #waiters: Waiters<WebhookEndpoint | 'gone'>

  constructor(directory: EndpointDirectory, clock: Clock) {
    this.#directory = directory
    this.#waiters = new Waiters(clock)
    directory.listen({
      changed: ({ endpoint }) => this.#waiters.notify(endpoint.metadata.uid, endpoint),
      removed: ({ metadata }) => this.#waiters.notify(metadata.uid, 'gone'),
    })
  }

  /** @returns the endpoint as soon as it is as wanted, `gone` if it is deleted, `late` after `ms` milliseconds */
  async when(
    { namespace = '', name, uid }: WebhookEndpoint['metadata'],
    isWanted: (endpoint: WebhookEndpoint) => boolean,
    ms: number,
  ): Promise<WebhookEndpoint | 'gone' | 'late'> {
    const known = this.#directory.find({ namespace, name, uid })?.endpoint
    // The caller has just read or written it, so it was deleted since.
    if (!known) return 'gone'
    if (isWanted(known)) return known
    const seen = await this.#waiters.wait(uid, ms, (value) => value === 'gone' || isWanted(value))
    return seen ?? 'late'
  }
}

/** @param late detail of the problem if it takes too long @throws Problem not_acknowledged, not_found */
export async function acknowledged(
  { acknowledgements }: EndpointsContext,
  { metadata }: WebhookEndpoint,
  isWanted: (endpoint: WebhookEndpoint) => boolean,
  late: { detail?: string } = {},
): Promise<WebhookEndpoint> {
  const seen = await acknowledgements.when(metadata, isWanted, ACKNOWLEDGED_WITHIN_MS)
  if (seen === 'gone') throw new Problem('not_found')
  if (seen === 'late') throw new Problem('not_acknowledged', { ...late, retryAfter: RETRY_AFTER_SECONDS })
  return seen
}

/** Whether the controller uses the secret. */
export function hasSecret({ status }: WebhookEndpoint, secret: string): boolean {
  const fingerprint = fingerprintOf(secret)
  return status?.signingSecrets?.some((key) => key.fingerprint === fingerprint) ?? false
}

const MAX_UNDISCLOSED = 10_000

/**
 * Signing secrets made for requests that failed afterwards, so that no client has them. A repeat of the request may return its
 * own secret, once, and the next roll ends them.
 */
export class UndisclosedSecrets {
  readonly #fingerprints = new LRUCache<string, true>({ max: MAX_UNDISCLOSED })

  has(secret: string): boolean {
    return this.#fingerprints.has(fingerprintOf(secret))
  }

  /** The secret may be stored, and no response has it. */
  add(secret: string): void {
    this.#fingerprints.set(fingerprintOf(secret), true)
  }

  /**
   * Runs the work that has to be done before the secret may be returned.
   * @param isNew whether it was made just now
   * @returns also whether the caller may return the secret: of several concurrent calls, only one may
   */
  async whenDone<T>(
    secret: string,
    isNew: boolean,
    work: () => Promise<T>,
  ): Promise<{ result: T; isUndisclosed: boolean }> {
    const isUndisclosed = isNew || this.has(secret)
    this.#fingerprints.delete(fingerprintOf(secret))
    try {
      return { result: await work(), isUndisclosed }
    } catch (error) {
      if (isUndisclosed) this.add(secret)
      throw error
    }
  }
}
