import { LRUCache } from 'lru-cache'
import { leases, leaseTimes, MAX_LEASES, REPLICA_LABEL } from '../apis/core-kinds.ts'
import type { ObjectMeta } from '../apis/meta.ts'
import { type WebhookEndpoint, webhookEndpoint, webhookEndpoints } from '../apis/webhook-endpoint.ts'
import { isApiError, type RawObject, type ResourceReader, type ResourceWriter } from '../kube/client.ts'
import type { Logger } from '../lib/log.ts'
import { type Clock, type Random, Waiters } from '../lib/time.ts'
import type { UrlPolicy } from '../net/egress-policy.ts'
import type { EndpointDirectory } from '../webhooks/endpoints/directory.ts'
import type { EventTypeStore } from '../webhooks/endpoints/event-types.ts'
import { annotationsOf, isAcknowledged, requestTime, type StateRequest } from '../webhooks/endpoints/plan.ts'
import { fingerprintOf } from '../webhooks/sender/signature.ts'
import { ENDPOINT, type EndpointId, endpointRef } from './endpoint-resource.ts'
import { Problem } from './http/problems.ts'
import type { Idempotency } from './idempotent-requests.ts'
import {
  type Conditional,
  checkDeletable,
  type NamespacedRef,
  notFoundOr,
  parseStored,
  readRaw,
  retryOnConflict,
} from './objects.ts'
import type { ReplicaBarrier } from './peers.ts'

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
const ACKNOWLEDGED_WITHIN_MS = 5000
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

const NOT_YET =
  'The change is saved but has not taken effect yet. It will take effect automatically; no action is needed.'

/** @param detail of the problem if it takes too long @throws Problem not_acknowledged, not_found */
export async function acknowledged(
  { acknowledgements }: EndpointsContext,
  { metadata }: WebhookEndpoint,
  isWanted: (endpoint: WebhookEndpoint) => boolean,
  detail = NOT_YET,
): Promise<WebhookEndpoint> {
  const seen = await acknowledgements.when(metadata, isWanted, ACKNOWLEDGED_WITHIN_MS)
  if (seen === 'gone') throw new Problem('not_found')
  if (seen === 'late') throw new Problem('not_acknowledged', { detail, retryAfter: RETRY_AFTER_SECONDS })
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

/**
 * Deletes an endpoint. The controller disables it first, so that nothing is sent once the deletion is answered: without the
 * object a controller could not acknowledge that.
 */

type DeletionContext = Pick<
  EndpointsContext,
  'resources' | 'directory' | 'replicas' | 'acknowledgements' | 'controllers' | 'clock'
>

const STILL_SENT =
  "The endpoint has been deleted, but a controller that is not responding may keep sending the endpoint's pending deliveries until it detects the deletion."

const INSTEAD =
  ' A recreated endpoint has a different signing secret. To stop deliveries, disable the endpoint instead.'

/** Works for an invalid endpoint, too: only the metadata is needed. */
export async function removeEndpoint(ctx: DeletionContext, id: EndpointId, how: Conditional): Promise<void> {
  await retryOnConflict(async () => {
    const raw = await readDeletable(ctx, endpointRef(id))
    const metadata = checkDeletable(ENDPOINT, raw, how, INSTEAD)
    try {
      await remove(ctx, raw, metadata, how.ifMatch === undefined ? undefined : metadata.resourceVersion)
    } catch (error) {
      throw notFoundOr(error)
    }
  })
}

/** A client that repeats a deletion gets `not_found` only when all replicas know that the endpoint is gone. */
async function readDeletable(
  { resources, replicas }: DeletionContext,
  ref: NamespacedRef,
): Promise<RawObject> {
  try {
    return await readRaw(resources, webhookEndpoints, ref)
  } catch (error) {
    if (error instanceof Problem) await replicas.untilEarlierRemovalKnown(ref)
    throw error
  }
}

/** @param resourceVersion the only version that may be deleted; undefined: any */
async function remove(
  ctx: DeletionContext,
  raw: RawObject,
  { namespace = '', name, uid }: ObjectMeta,
  resourceVersion: string | undefined,
): Promise<void> {
  // An invalid endpoint gets no deliveries.
  const { data: endpoint } = webhookEndpoint.safeParse(raw)
  const { isLate, isAsked } = endpoint ? await stopSending(ctx, endpoint, resourceVersion) : NOTHING_TO_STOP
  const version = resourceVersion === undefined || isAsked ? {} : { resourceVersion }
  try {
    await ctx.resources.delete(webhookEndpoints, { namespace, name }, { uid, ...version })
  } catch (error) {
    throw isAsked ? disabledOnly(error) : error
  }
  if (!endpoint) return
  ctx.directory.remove(endpoint)
  await ctx.replicas.untilRemovalKnown({ namespace, name, uid })
  if (isLate) throw new Problem('not_acknowledged', { detail: STILL_SENT })
}

/** For errors of which `problemOf` says that the request had no effect. */
function disabledOnly(error: unknown): unknown {
  if (!isApiError(error, 'Forbidden', 'NoSpace', 'Quota', 'TooManyRequests')) return error
  const detail = 'The endpoint has been disabled but could not be deleted. Retry the request.'
  return new Problem('overloaded', { detail, retryAfter: RETRY_AFTER_SECONDS, cause: error })
}

/** `isLate`: a controller lives and has not acknowledged in time. `isAsked`: the object was changed to ask for it. */
type StopOutcome = { isLate: boolean; isAsked: boolean }

const NOTHING_TO_STOP: StopOutcome = { isLate: false, isAsked: false }

/** @throws ApiError `NotFound`, `Conflict` if it is another endpoint or version by now, and others */
async function stopSending(
  ctx: DeletionContext,
  endpoint: WebhookEndpoint,
  resourceVersion: string | undefined,
): Promise<StopOutcome> {
  const isQuiet = endpoint.status?.state === 'disabled' || !(await ctx.controllers.anyLives())
  if (isQuiet) return NOTHING_TO_STOP
  const { namespace = '', name, uid } = endpoint.metadata
  // As a request, so that it does not matter who manages the spec.
  const request: StateRequest = { state: 'disabled', at: requestTime(endpoint, ctx.clock.now()) }
  const guard = { uid, ...(resourceVersion === undefined ? {} : { resourceVersion }) }
  const body = { metadata: { ...guard, annotations: annotationsOf(request) } }
  let patched: WebhookEndpoint
  try {
    patched = parseStored(ENDPOINT, await ctx.resources.patch(webhookEndpoints, { namespace, name }, body))
  } catch (error) {
    // Policies of the cluster may keep Davit from changing what it may delete.
    if (isApiError(error, 'Invalid', 'Forbidden')) return { isLate: true, isAsked: false }
    throw error
  }
  ctx.directory.applyRead(patched)
  const generation = patched.metadata.generation ?? 0
  const seen = await ctx.acknowledgements.when(
    patched.metadata,
    (endpoint) => isAcknowledged(endpoint, generation, request),
    ACKNOWLEDGED_WITHIN_MS,
  )
  return { isLate: seen === 'late', isAsked: true }
}

const CONTROLLER_ROLE = 'controller'
/** Clocks differ, and an attempt begun before the Lease ended may still be running. */
const SLACK_MS = 60_000

/** Whether a controller runs that has to stop sending. */
export class LiveControllers {
  readonly #resources: Pick<ResourceReader, 'list'>
  readonly #namespace: string
  readonly #clock: Pick<Clock, 'now'>

  /** @param namespace Davit's own @param clock that of Leases */
  constructor(resources: Pick<ResourceReader, 'list'>, namespace: string, clock: Pick<Clock, 'now'>) {
    this.#resources = resources
    this.#namespace = namespace
    this.#clock = clock
  }

  /** True for a while after the last one died. @throws ApiError */
  async anyLives(): Promise<boolean> {
    const query = { labelSelector: `${REPLICA_LABEL}=${CONTROLLER_ROLE}`, limit: MAX_LEASES }
    const { items } = await this.#resources.list(leases, { namespace: this.#namespace, ...query })
    return items.some((raw) => mayLive(raw, this.#clock.now()))
  }
}

/** A Lease that cannot be read may belong to a live controller. */
function mayLive(raw: RawObject, now: number): boolean {
  const { renewTime = '', leaseDurationSeconds = 0 } = leaseTimes.safeParse(raw).data?.spec ?? {}
  const renewedAt = Date.parse(renewTime)
  return Number.isNaN(renewedAt) || now - renewedAt < leaseDurationSeconds * 1000 + SLACK_MS
}
