import { LRUCache } from 'lru-cache'
import { leases, leaseTimes, MAX_LEASES, REPLICA_LABEL } from '../apis/leases.ts'
import { type WebhookEndpoint, webhookEndpoints } from '../apis/webhook-endpoint.ts'
import { isApiError, type RawObject, type ResourceReader, type ResourceWriter } from '../kube/client.ts'
import type { Clock, Random } from '../lib/clock.ts'
import type { Logger } from '../lib/log.ts'
import type { UrlPolicy } from '../net/egress-policy.ts'
import type { EndpointDirectory } from '../webhooks/endpoints/directory.ts'
import { annotationsOf, isAcknowledged, requestTime, type StateRequest } from '../webhooks/endpoints/plan.ts'
import { fingerprintOf } from '../webhooks/sender/signature.ts'
import { parseEndpoint } from './endpoint-resource.ts'
import { RefusedError } from './http/problems.ts'
import type { IdempotencyKeys } from './idempotency.ts'
import type { EndpointReplicas } from './replica-barrier.ts'

/** Whether somebody drives endpoints. */

export type LiveControllersOptions = {
  resources: ResourceReader
  /** The operator's namespace. */
  namespace: string
  /** That of Leases. */
  clock: Pick<Clock, 'now'>
}

const CONTROLLER_ROLE = 'controller'
/** Clocks differ, and what a replica has begun before its Lease ended may take as long as an attempt. */
const SLACK_MS = 60_000

export class LiveControllers {
  readonly #options: LiveControllersOptions

  constructor(options: LiveControllersOptions) {
    this.#options = options
  }

  /** Of one that died it is said for a while longer. @throws ApiError */
  async anyLives(): Promise<boolean> {
    const { resources, namespace, clock } = this.#options
    const labelSelector = `${REPLICA_LABEL}=${CONTROLLER_ROLE}`
    const { items } = await resources.list(leases, { namespace, labelSelector, limit: MAX_LEASES })
    return items.some((raw) => mayLive(raw, clock.now()))
  }
}

/** What cannot be read may be of one that lives. */
function mayLive(raw: RawObject, now: number): boolean {
  const { renewTime = '', leaseDurationSeconds = 0 } = leaseTimes.safeParse(raw).data?.spec ?? {}
  const renewedAt = Date.parse(renewTime)
  return Number.isNaN(renewedAt) || now - renewedAt < leaseDurationSeconds * 1000 + SLACK_MS
}

/** Waits until the controller has seen what was written: what an answer says is in force when it is read. */

type Waiter = (endpoint: WebhookEndpoint | undefined) => void

export class EndpointAcknowledgements {
  readonly #clock: Clock
  readonly #directory: EndpointDirectory
  /** By UID. */
  readonly #waiters = new Map<string, Set<Waiter>>()

  constructor(directory: EndpointDirectory, clock: Clock) {
    this.#clock = clock
    this.#directory = directory
    const tell = (uid: string, endpoint: WebhookEndpoint | undefined) => {
      for (const waiter of [...(this.#waiters.get(uid) ?? [])]) waiter(endpoint)
    }
    directory.listen({
      changed: ({ endpoint }) => tell(endpoint.metadata.uid, endpoint),
      removed: ({ metadata }) => tell(metadata.uid, undefined),
    })
  }

  /** @returns the endpoint once it is as wanted, `gone` when it is deleted, `late` after `ms` milliseconds */
  when(
    of: { namespace: string; name: string; uid: string },
    wanted: (endpoint: WebhookEndpoint) => boolean,
    ms: number,
  ): Promise<WebhookEndpoint | 'gone' | 'late'> {
    const known = this.#directory.find(of)?.endpoint
    // Whoever waits has just read or written it: it went since.
    if (!known) return Promise.resolve('gone')
    if (wanted(known)) return Promise.resolve(known)
    return new Promise((resolve) => {
      const end = (answer: WebhookEndpoint | 'gone' | 'late') => {
        stop()
        const waiters = this.#waiters.get(of.uid)
        waiters?.delete(waiter)
        if (waiters?.size === 0) this.#waiters.delete(of.uid)
        resolve(answer)
      }
      const waiter: Waiter = (endpoint) => {
        if (!endpoint) end('gone')
        else if (wanted(endpoint)) end(endpoint)
      }
      const stop = this.#clock.after(ms, () => end('late'))
      const waiters = this.#waiters.get(of.uid) ?? new Set<Waiter>()
      this.#waiters.set(of.uid, waiters.add(waiter))
    })
  }
}

const MAX_UNSEEN = 10_000

/**
 * Signing secrets that this process made for requests that failed afterwards: nobody has seen them. A repeat of the
 * request may show its own, once, and the next roll takes them out of force.
 */
export class UndisclosedSecrets {
  readonly #fingerprints = new LRUCache<string, true>({ max: MAX_UNSEEN })

  has(secret: string): boolean {
    return this.#fingerprints.has(fingerprintOf(secret))
  }

  /** It may be stored, and is shown to nobody. */
  add(secret: string): void {
    this.#fingerprints.set(fingerprintOf(secret), true)
  }

  /**
   * Does what has to be done before the secret may be shown.
   * @param isNew whether it was made just now
   * @returns what `work` gave, and whether nobody has been shown it; of several who ask at a time, one hears that
   */
  async whenDone<T>(
    secret: string,
    isNew: boolean,
    work: () => Promise<T>,
  ): Promise<{ result: T; isUnseen: boolean }> {
    const isUnseen = isNew || this.has(secret)
    this.#fingerprints.delete(fingerprintOf(secret))
    try {
      return { result: await work(), isUnseen }
    } catch (error) {
      if (isUnseen) this.add(secret)
      throw error
    }
  }
}

/** What the operations on endpoints share. */

export type EndpointsOptions = {
  resources: ResourceReader & ResourceWriter
  /** The operator's namespace. */
  namespace: string
  /** Endpoints of all organizations, from the watch; what is written here is applied at once. */
  directory: EndpointDirectory
  /** Why the directory may not have all of them as they are, in words; undefined while it has. */
  behind: () => string | undefined
  catalogue: { unknown(names: readonly string[]): string[] }
  urlGuard: UrlPolicy
  keys: IdempotencyKeys
  /** Waited for before an endpoint's change is answered. */
  replicas: EndpointReplicas
  /** Whether somebody drives endpoints, who has to stop before one is deleted. @throws ApiError */
  controllers: { anyLives(): Promise<boolean> }
  /** Endpoints that an organization may have. */
  maxEndpoints: number
  clock: Clock
  random: Random
  log: Logger
}

export type EndpointsContext = EndpointsOptions & {
  acknowledgements: EndpointAcknowledgements
  unseen: UndisclosedSecrets
}

/** So long the controller may take to acknowledge a change (settled, "REST shapes"). */
const ACKNOWLEDGED_WITHIN_MS = 5000
const RETRY_AFTER_SECONDS = 2

/** @param late what to say of it when that takes too long @throws RefusedError not_acknowledged, not_found */
export async function acknowledged(
  { acknowledgements }: EndpointsContext,
  { metadata }: WebhookEndpoint,
  wanted: (endpoint: WebhookEndpoint) => boolean,
  late: { detail?: string } = {},
): Promise<WebhookEndpoint> {
  const { namespace = '', name, uid } = metadata
  const answer = await acknowledgements.when({ namespace, name, uid }, wanted, ACKNOWLEDGED_WITHIN_MS)
  if (answer === 'gone') throw new RefusedError('not_found')
  if (answer === 'late')
    throw new RefusedError('not_acknowledged', { ...late, retryAfter: RETRY_AFTER_SECONDS })
  return answer
}

/** Where a field breaks a rule that a schema cannot say. @throws RefusedError invalid */
export function checkFields(
  { catalogue, urlGuard }: EndpointsOptions,
  given: { url?: string | undefined; eventTypes?: readonly string[] | undefined },
): void {
  const { url, eventTypes = [] } = given
  const verdict = url === undefined ? { ok: true as const } : urlGuard.check(url)
  const unknown = new Set(catalogue.unknown(eventTypes))
  const places = eventTypes.flatMap((type, index) =>
    unknown.has(type) ? [{ pointer: `/eventTypes/${index}`, message: `there is no event type ${type}` }] : [],
  )
  if (!verdict.ok) places.unshift({ pointer: '/url', message: verdict.reason })
  if (places.length > 0) throw new RefusedError('invalid', { places })
}

/**
 * What comes before the deletion of an endpoint: whoever drives it begins nothing more for it, so that nothing is sent once the deletion is
 * answered. With the object gone there would be nothing left by which a controller could say so.
 */

type Context = Pick<
  EndpointsContext,
  'resources' | 'directory' | 'acknowledgements' | 'controllers' | 'clock'
>

/** `late`: a controller lives that has not said in time that it has stopped. `asked`: the object has been changed for that. */
export type StopOutcome = { isLate: boolean; isAsked: boolean }

export const NOTHING_TO_STOP: StopOutcome = { isLate: false, isAsked: false }

/**
 * @param resourceVersion in which alone it is to be deleted; absent: in any
 * @throws ApiError `NotFound`, `Conflict` when it is another one by now, and the rest
 */
export async function stopSending(
  ctx: Context,
  endpoint: WebhookEndpoint,
  resourceVersion: string | undefined,
): Promise<StopOutcome> {
  const isQuiet = endpoint.status?.state === 'disabled' || !(await ctx.controllers.anyLives())
  if (isQuiet) return NOTHING_TO_STOP
  try {
    return await ask(ctx, endpoint, resourceVersion)
  } catch (error) {
    // Policies of the cluster may keep Davit from changing what it may delete.
    if (isApiError(error, 'Invalid', 'Forbidden')) return { isLate: true, isAsked: false }
    throw error
  }
}

async function ask(
  ctx: Context,
  endpoint: WebhookEndpoint,
  resourceVersion: string | undefined,
): Promise<StopOutcome> {
  const { namespace = '', name, uid } = endpoint.metadata
  // By a request, whoever manages the spec: it goes anyway.
  const request: StateRequest = { state: 'disabled', at: requestTime(endpoint, ctx.clock.now()) }
  const guard = { uid, ...(resourceVersion === undefined ? {} : { resourceVersion }) }
  const body = { metadata: { ...guard, annotations: annotationsOf(request) } }
  const patched = parseEndpoint(await ctx.resources.patch(webhookEndpoints, { namespace, name }, body))
  ctx.directory.applyRead(patched)
  const generation = patched.metadata.generation ?? 0
  const answer = await ctx.acknowledgements.when(
    { namespace, name, uid },
    (seen) => isAcknowledged(seen, generation, request),
    ACKNOWLEDGED_WITHIN_MS,
  )
  return { isLate: answer === 'late', isAsked: true }
}
