import {
  handledExcept,
  type RedeliverItem,
  type RedeliverRequest,
  readRedeliverRequest,
} from '../../apis/annotations.ts'
import { messageId } from '../../apis/ids.ts'
import { PING_ANNOTATION, REDELIVER_ANNOTATION } from '../../apis/webhook-endpoint.ts'
import type { ResourceReader } from '../../kube/client.ts'
import { notAnOrganization, type Organizations } from '../../kube/organizations.ts'
import { noRequeue, type ReconcileResult, type Reconciler, requeueAfter } from '../../kube/reconcile-loop.ts'
import type { EventRecorder } from '../../kube/recorder.ts'
import { statusPatch } from '../../kube/status.ts'
import { withPeriod } from '../../lib/text.ts'
import type { Clock } from '../../lib/time.ts'
import type { UrlDecision, UrlPolicy } from '../../net/egress-policy.ts'
import { type FoundOriginals, findOriginals, type Original } from '../events/originals.ts'
import type { Publisher } from '../events/publish.ts'
import type { PublishQuota, QuotaExceeded } from '../events/quota.ts'
import type { LogStore } from '../log/log-store.ts'
import {
  type EndpointDirectory,
  type EndpointStatusWriter,
  type EndpointView,
  recordEndpointEvent,
} from './directory.ts'
import type { EventTypeStore } from './event-types.ts'
import type { DisabledNotifier } from './notifier.ts'
import {
  type AttemptSummary,
  cannotStore,
  conditionOf,
  createdMs,
  decideCoverage,
  disabledText,
  endpointStatus,
  type LeftOut,
  type Problem,
  requestOf,
} from './plan.ts'
import type { SigningKeyReconciler } from './signing-keys.ts'

/**
 * Reconciles an endpoint: its signing keys, its owner's requests by annotation, its state, and the status that reports
 * all of that. The status records an action only once the action is durable; if a crash repeats an action, it has the
 * same id and thus no second effect.
 */

export type ReconcileEndpointOptions = {
  directory: EndpointDirectory
  statuses: EndpointStatusWriter
  organizations: Organizations
  catalogue: EventTypeStore
  signingKeys: SigningKeyReconciler
  publisher: Publisher
  /** Whether the organization may have another redelivery. */
  quota: Pick<PublishQuota, 'remaining'>
  resources: ResourceReader
  /** The delivery log. */
  store: Pick<LogStore, 'page' | 'read'>
  /** How long the log keeps a delivery that has ended. */
  retentionMs: number
  notifier: DisabledNotifier
  recorder: EventRecorder
  clock: Clock
  /** When successes of the endpoint last got no object. */
  leftOut: (endpointUid: string) => LeftOut | undefined
  /** How the API server rejects the object of a delivery to the endpoint that has not ended; undefined if it rejects none. */
  rejectedObject: (endpointUid: string) => string | undefined
  /** The last attempt that the status may show. */
  attempts: (endpointUid: string) => AttemptSummary
  /** Whether webhooks can be sent to the URL. */
  urlGuard: Pick<UrlPolicy, 'check'>
}

/** How often it is checked whether the objects of its deliveries are still rejected. */
const REJECTION_CHECKED_MS = 60_000

/** Ids of deliveries that were asked for, and what was found of them. */
type Originals = FoundOriginals & { asked: ReadonlySet<string> }

/** Redeliveries that wait for room are tried again after this time. */
const WAIT_MS = 10_000

export class EndpointReconciler implements Reconciler {
  readonly #options: ReconcileEndpointOptions

  constructor(options: ReconcileEndpointOptions) {
    this.#options = options
  }

  async reconcile(key: string, signal: AbortSignal): Promise<ReconcileResult> {
    const [namespace = '', name = ''] = key.split('/')
    const { directory, statuses } = this.#options
    const known = directory.get(namespace, name)
    if (!known || known.endpoint.metadata.deletionTimestamp) return noRequeue()
    const { uid } = known.endpoint.metadata
    // May search the log, which outcomes that count for the endpoint must not wait for.
    const originals = await this.#findOriginals(known, signal)
    return await statuses.exclusively({ namespace, name, uid }, async (view) =>
      view ? await this.#pass(view, originals, signal) : noRequeue(),
    )
  }

  async #pass(seen: EndpointView, originals: Originals, signal: AbortSignal): Promise<ReconcileResult> {
    const { signingKeys, directory, statuses, notifier, clock } = this.#options
    const { namespace = '', name, uid } = seen.endpoint.metadata
    const url = this.#options.urlGuard.check(seen.endpoint.spec.url)
    const problems = this.#problemsOf(seen, url)
    const warning = url.ok ? url.warning : undefined
    if (warning !== undefined && isNewSpec(seen)) this.#recordEvent(seen, 'PlainHttp', warning)
    const keys = await signingKeys.reconcile(seen)
    problems.push(...keys.problems)
    const handled = { ...seen.endpoint.status?.lastHandled, ...seen.decision.handled, ...keys.handled }
    for (const problem of seen.decision.problems) this.#recordEvent(seen, 'InvalidRequest', problem)
    const { waits, ...redelivered } = await this.#redeliver(seen, originals, signal)
    Object.assign(handled, await this.#ping(seen), redelivered)
    const announced = await this.#publishDisabled(seen)
    const view = directory.find({ namespace, name, uid }) ?? seen
    const leftOut = this.#options.leftOut(uid)
    const attempts = this.#options.attempts(uid)
    const found = { problems, warning, handled, announced, rolled: keys.rolled, leftOut, attempts }
    let desired = endpointStatus(view, clock.now(), found)
    await statuses.write(view, (now) => {
      desired = endpointStatus(now, clock.now(), found)
      return statusPatch(now.endpoint.status ?? {}, desired)
    })
    notifier.notifyIfDisabled(view.endpoint.metadata, desired)
    const { changesAt } = decideCoverage(conditionOf(desired, 'SuccessesShown'), leftOut, clock.now())
    const isRejected = problems.some(({ reason }) => reason === 'CannotStoreDelivery')
    const rejectedUntil = isRejected ? clock.now() + REJECTION_CHECKED_MS : undefined
    const roomAt = waits ? clock.now() + WAIT_MS : undefined
    const next = Math.min(
      ...[keys.requeueAt, changesAt, rejectedUntil, roomAt].map((at) => at ?? Number.POSITIVE_INFINITY),
    )
    return next === Number.POSITIVE_INFINITY ? noRequeue() : requeueAfter(Math.max(1000, next - clock.now()))
  }

  #problemsOf({ endpoint }: EndpointView, url: UrlDecision): Problem[] {
    const { organizations, catalogue, rejectedObject } = this.#options
    const { namespace = '', uid } = endpoint.metadata
    const problems: Problem[] = []
    if (!organizations.get(namespace)) problems.push(notAnOrganization(namespace))
    if (!url.ok)
      problems.push({
        reason: 'UrlNotAllowed',
        message: withPeriod(`spec.url is not allowed: ${url.reason}`),
      })
    const rejected = rejectedObject(uid)
    if (rejected !== undefined) problems.push(cannotStore(rejected))
    const unknown = catalogue.unknown(endpoint.spec.eventTypes)
    if (unknown.length > 0) {
      problems.push({ reason: 'UnknownEventTypes', message: unknownTypesText(unknown) })
    }
    return problems
  }

  /** @returns the `disabledAt` that was published to the other endpoints, if the endpoint was disabled automatically */
  async #publishDisabled(view: EndpointView): Promise<string | undefined> {
    const { status } = view.endpoint
    if (status?.disabledReason !== 'ConsecutiveFailures' || status.disabledAt === undefined)
      return status?.announcedAt
    if (status.announcedAt === status.disabledAt) return status.announcedAt
    await this.#options.publisher.endpointDisabled(view.endpoint, status.disabledAt)
    this.#recordEvent(view, 'DisabledAutomatically', disabledText(status))
    return status.disabledAt
  }

  async #ping(view: EndpointView): Promise<{ ping?: string }> {
    const request = requestOf(view.endpoint, PING_ANNOTATION, 'ping')
    if (request.kind === 'none') return {}
    if (request.kind === 'invalid')
      this.#recordEvent(view, 'InvalidRequest', `${PING_ANNOTATION}: ${request.message}`)
    if (request.kind === 'new' && !view.enabled)
      this.#recordEvent(view, 'EndpointDisabled', whileDisabled('ping'))
    if (request.kind === 'new' && view.enabled) {
      const id = await this.#options.publisher.ping(view.endpoint, request)
      const message = `Davit is sending a webhook.ping event with the ID ${messageId(id)}.`
      this.#recordEvent(view, 'Pinged', message, 'Normal')
    }
    return { ping: request.value }
  }

  async #findOriginals(view: EndpointView, signal: AbortSignal): Promise<Originals> {
    const { clock, retentionMs } = this.#options
    const { items } = redeliverRequestOf(view)
    const asked = new Set(view.enabled ? items.map(({ deliveryId }) => deliveryId) : [])
    if (asked.size === 0 || this.#quotaExceeded(view)) return { asked, found: new Map(), later: asked }
    const search = { retentionMs, now: clock.now(), signal }
    return { asked, ...(await findOriginals(this.#options, view.endpoint, [...asked], search)) }
  }

  /** @returns `waits` if a redelivery waits for room */
  async #redeliver(
    view: EndpointView,
    originals: Originals,
    signal: AbortSignal,
  ): Promise<{ redeliver?: string; waits?: true }> {
    const request = redeliverRequestOf(view)
    if (request.handled === undefined) return {}
    // The list was changed since they were looked for, which is a reason for another pass.
    if (view.enabled && request.items.some(({ deliveryId }) => !originals.asked.has(deliveryId))) return {}
    for (const item of request.invalid)
      this.#recordEvent(view, 'InvalidRequest', `${REDELIVER_ANNOTATION}: ${item}`)
    if (request.items.length > 0 && !view.enabled) {
      this.#recordEvent(view, 'EndpointDisabled', whileDisabled('redelivery'))
      return { redeliver: request.handled }
    }
    const waiting = await this.#redeliverItems(view, request.items, originals, signal)
    if (waiting.length === 0) return { redeliver: request.handled }
    const handled = handledExcept(request.handled, waiting)
    return { waits: true, ...(handled === undefined ? {} : { redeliver: handled }) }
  }

  /** @returns the items that wait for another pass */
  async #redeliverItems(
    view: EndpointView,
    items: readonly RedeliverItem[],
    { found, later }: Originals,
    signal: AbortSignal,
  ): Promise<RedeliverItem[]> {
    const waiting: RedeliverItem[] = []
    let exceeded: QuotaExceeded | undefined
    for (const item of items) {
      signal.throwIfAborted()
      exceeded ??= this.#quotaExceeded(view)
      if (exceeded || later.has(item.deliveryId)) waiting.push(item)
      else await this.#redeliverOne(view, item, found.get(item.deliveryId))
    }
    if (exceeded)
      this.#recordEvent(view, exceeded.reason, `Requested redeliveries are also waiting. ${exceeded.message}`)
    return waiting
  }

  #quotaExceeded({ endpoint }: EndpointView): QuotaExceeded | undefined {
    const remaining = this.#options.quota.remaining(endpoint.metadata.namespace ?? '')
    return typeof remaining === 'number' ? undefined : remaining
  }

  async #redeliverOne(
    view: EndpointView,
    { deliveryId, at, raw }: RedeliverItem,
    original: Original | undefined,
  ): Promise<void> {
    if (!original) {
      const message = `Davit cannot redeliver ${deliveryId}: no such delivery exists for this endpoint, or the delivery was deleted.`
      return this.#recordEvent(view, 'DeliveryNotFound', message)
    }
    const id = await this.#options.publisher.redeliver(view.endpoint, original, { value: raw, at })
    this.#recordEvent(
      view,
      'Redelivered',
      `Davit is redelivering ${deliveryId} under the new ID ${messageId(id)}.`,
      'Normal',
    )
  }

  #recordEvent(
    { endpoint }: EndpointView,
    reason: string,
    message: string,
    type: 'Normal' | 'Warning' = 'Warning',
  ): void {
    recordEndpointEvent(this.#options.recorder, endpoint, type, reason, message)
  }
}

/** The status does not report this spec yet. */
function isNewSpec({ endpoint: { metadata, status } }: EndpointView): boolean {
  return status?.observedGeneration !== metadata.generation
}

function whileDisabled(request: 'ping' | 'redelivery'): string {
  return `The ${request} was not sent because the endpoint is disabled. Enable the endpoint, then request the ${request} again.`
}

function unknownTypesText(types: readonly string[]): string {
  const fix =
    types.length === 1
      ? 'Correct the name in spec.eventTypes, or ask your cluster operator to create the EventType.'
      : 'Correct the names in spec.eventTypes, or ask your cluster operator to create the EventTypes.'
  return `${types.length === 1 ? 'EventType' : 'EventTypes'} not found: ${types.join(', ')}. ${fix} To list event types, run: kubectl get eventtypes`
}

function redeliverRequestOf({ endpoint: { metadata, status } }: EndpointView): RedeliverRequest {
  const value = metadata.annotations?.[REDELIVER_ANNOTATION]
  return readRedeliverRequest(value, status?.lastHandled?.redeliver, createdMs(metadata))
}
