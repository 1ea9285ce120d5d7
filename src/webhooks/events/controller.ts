import { API_VERSION } from '../../apis/meta.ts'
import { webhookEndpointKind } from '../../apis/webhook-endpoint.ts'
import {
  type EventOutline,
  type EventState,
  eventOutline,
  type WebhookEventStatus,
  webhookEvents,
} from '../../apis/webhook-event.ts'
import {
  findObject,
  isApiError,
  type RawObject,
  type ResourceReader,
  type ResourceWriter,
} from '../../kube/client.ts'
import { noRequeue, type ReconcileResult, type Reconciler, requeueAfter } from '../../kube/reconcile-loop.ts'
import type { EventRecorder } from '../../kube/recorder.ts'
import { type BackoffLimits, backoffMs, type Clock, type Random } from '../../lib/time.ts'
import type { PendingCounters } from '../delivery/pending-counts.ts'
import { type EventDecision, eventStatus, mayDecideMore } from './plan.ts'
import { type DecidedEvent, type PublishEventsOptions, publishEvents } from './publish.ts'
import type { PublishQuota, QuotaExceeded } from './quota.ts'
import { eventName, type UnconfirmedAppends, type WebhookEventStore } from './store.ts'

/**
 * Reconciles the WebhookEvents of a namespace: finishes delivered ones, deletes expired ones, accepts waiting ones. An event is decided
 * once, and the decision is kept until its status is written: later changes do not affect an event that was sent.
 */

/** Longest time of each part of a pass, since a shard handoff waits for its end. A busy API server is slow, and an event takes two calls. */
const PART_MS = 4000
/** Rejected writes per organization and window; then none is retried until the window is over. */
const MAX_REJECTED = 20
const WINDOW_MS = 2000

/**
 * When to retry a write that the API server rejected for one event: with backoff, and only some per organization and window, so that a
 * policy that rejects thousands of events does not cost hundreds of calls per second.
 */
export class WriteBackoff {
  readonly #clock: Clock
  readonly #random: Random
  readonly #limits: BackoffLimits
  /** By UID: when it is due again (monotonic), after this many rejections in a row. */
  readonly #rejected = new Map<string, { at: number; count: number }>()
  readonly #windows = new Map<string, { until: number; count: number }>()

  constructor({ clock, random }: { clock: Clock; random: Random }, limits: BackoffLimits) {
    this.#clock = clock
    this.#random = random
    this.#limits = limits
  }

  get size(): number {
    return this.#rejected.size
  }

  /** Milliseconds until it may be tried; 0 if it is due, or was never rejected. */
  waitOf({ metadata: { uid, namespace } }: EventOutline): number {
    const rejected = this.#rejected.get(uid)
    if (!rejected) return 0
    const now = this.#clock.monotonic()
    const { until = now, count = 0 } = this.#windows.get(namespace) ?? {}
    return Math.max(0, rejected.at - now, count < MAX_REJECTED ? 0 : until - now)
  }

  /** Those that are due: first those never rejected, in the given order, then those due for longest. */
  due(events: readonly EventOutline[]): EventOutline[] {
    const at = ({ metadata }: EventOutline) => this.#rejected.get(metadata.uid)?.at ?? 0
    return events.filter((event) => this.waitOf(event) === 0).sort((a, b) => at(a) - at(b))
  }

  add({ metadata: { uid, namespace } }: EventOutline): void {
    const now = this.#clock.monotonic()
    const count = (this.#rejected.get(uid)?.count ?? 0) + 1
    this.#rejected.set(uid, { at: now + backoffMs(count, this.#limits, this.#random), count })
    for (const [organization, { until }] of this.#windows)
      if (until <= now) this.#windows.delete(organization)
    const window = this.#windows.get(namespace) ?? { until: now + WINDOW_MS, count: 0 }
    window.count += 1
    this.#windows.set(namespace, window)
  }

  forget(uid: string): void {
    this.#rejected.delete(uid)
  }
}

type EventExpiryOptions = {
  store: WebhookEventStore
  writer: ResourceWriter
  clock: Clock
  random: Random
  /** The wall time for ages. */
  time: Pick<Clock, 'now'>
  onNotDeleted: (error: unknown) => void
}

const DELETE_RETRY: BackoffLimits = { firstMs: 60_000, longestMs: 600_000 }

/** Deletes finished events after their `spec.ttlSecondsAfterFinished`. */
export class EventExpiry {
  readonly #options: EventExpiryOptions
  readonly #backoff: WriteBackoff

  constructor(options: EventExpiryOptions) {
    this.#options = options
    this.#backoff = new WriteBackoff(options, DELETE_RETRY)
  }

  forget(uid: string): void {
    this.#backoff.forget(uid)
  }

  /** A failed delete does not block others. @returns milliseconds until the next one expires or is retried */
  async pass(namespace: string): Promise<number | undefined> {
    const { store, clock, time, onNotDeleted } = this.#options
    const now = time.now()
    const until = clock.monotonic() + PART_MS
    const errors: unknown[] = []
    const expired = store.expiringIn(namespace).filter((event) => expiresIn(event, now) <= 0)
    for (const event of this.#backoff.due(expired)) {
      if (clock.monotonic() > until) break
      if (this.#backoff.waitOf(event) === 0)
        await this.#delete(event).catch((error: unknown) => errors.push(error))
    }
    if (errors.length > 0) onNotDeleted(errors[0])
    const waits = store.expiringIn(namespace).map((event) => this.#waitOf(event, now))
    return waits.length === 0 ? undefined : Math.min(...waits)
  }

  #waitOf(event: EventOutline, now: number): number {
    return Math.max(expiresIn(event, now), this.#backoff.waitOf(event))
  }

  async #delete(event: EventOutline): Promise<void> {
    const { store, writer } = this.#options
    const { uid } = event.metadata
    try {
      await writer.delete(webhookEvents, event.metadata, { uid })
    } catch (error) {
      if (!isApiError(error, 'NotFound', 'Conflict')) {
        if (store.isOpen(event)) this.#backoff.add(event)
        throw error
      }
    }
    this.forget(uid)
    store.remove(event)
  }
}

/** Milliseconds until it expires; 0 or less if it has. */
function expiresIn({ metadata, spec, status }: EventOutline, now: number): number {
  const created = Date.parse(metadata.creationTimestamp)
  // With a clock ahead it stays longer; with a clock behind it is not deleted at once.
  const finished = Math.max(created, Date.parse(status?.finishedAt ?? '') || created)
  return finished + (spec.ttlSecondsAfterFinished ?? 0) * 1000 - now
}

type EventStatusOptions = {
  resources: ResourceReader
  writer: ResourceWriter
  store: WebhookEventStore
  clock: Clock
  random: Random
}

/** After rejections of one event. The first is short, since an API server that has just started may not know Davit's rights yet. */
const STATUS_RETRY: BackoffLimits = { firstMs: 1000, longestMs: 60_000 }
const MAX_ATTEMPTS = 5

/** `since` is monotonic. */
type UnreportedFailures = { first: string; count: number; cause: unknown; since: number }

/** Writes the status of WebhookEvents. A rejected status does not block others. */
class EventStatusWriter {
  /** After rejections. */
  readonly backoff: WriteBackoff
  readonly #options: EventStatusOptions
  readonly #unreported = new Map<string, UnreportedFailures>()

  constructor(options: EventStatusOptions) {
    this.#options = options
    this.backoff = new WriteBackoff(options, STATUS_RETRY)
  }

  /** A rejection of this event is reported later (`throwIfRejected`). @throws ApiError the API server is unavailable or busy */
  async write(event: EventOutline, status: Partial<WebhookEventStatus>): Promise<void> {
    const { store } = this.#options
    store.beginWrite(event)
    try {
      const written = await this.#patch(event, status)
      store.completeWrite(
        written ?? { ...event, status },
        written && Number(written.metadata.resourceVersion),
      )
      this.backoff.forget(event.metadata.uid)
    } catch (error) {
      store.failWrite(event)
      if (!isApiError(error, 'Invalid', 'BadRequest', 'TooLarge', 'Forbidden', 'Conflict')) throw error
      if (store.isOpen(event)) this.backoff.add(event)
      this.#note(event, error)
    }
  }

  /** @param forMs only rejections at least this old @throws Error with the first one since the last call, and their number */
  throwIfRejected(namespace: string, forMs: number): void {
    const unreported = this.#unreported.get(namespace)
    if (!unreported || this.#options.clock.monotonic() - unreported.since < forMs) return
    this.#unreported.delete(namespace)
    const { first, count, cause } = unreported
    const others = count > 1 ? ` and ${count - 1} others` : ''
    throw new Error(`failed to write the status of WebhookEvent ${namespace}/${first}${others}`, {
      cause,
    })
  }

  #note({ metadata: { namespace, name } }: EventOutline, cause: unknown): void {
    const unreported = this.#unreported.get(namespace)
    if (unreported) unreported.count += 1
    else
      this.#unreported.set(namespace, {
        first: name,
        count: 1,
        cause,
        since: this.#options.clock.monotonic(),
      })
  }

  /**
   * Patches the version that was decided on. After another writer's change, it patches only if the status may follow that.
   * @returns the event as it is then; undefined if it was deleted, replaced, or became unreadable
   */
  async #patch(event: EventOutline, status: Partial<WebhookEventStatus>): Promise<EventOutline | undefined> {
    const { namespace, name, uid } = event.metadata
    const ref = { namespace, name }
    let current: EventOutline | undefined = event
    for (let attempt = 1; current?.metadata.uid === uid; attempt += 1) {
      const { resourceVersion } = current.metadata
      const patch = { metadata: { uid, resourceVersion }, status }
      try {
        const how = { subresource: 'status' } as const
        const { metadata } = await this.#options.writer.patch(webhookEvents, ref, patch, how)
        const { state, eventId = event.status?.eventId, finishedAt } = status
        const known = { state, eventId, finishedAt } as NonNullable<EventOutline['status']>
        const version = String(metadata.resourceVersion)
        return { ...event, metadata: { ...event.metadata, resourceVersion: version }, status: known }
      } catch (error) {
        if (isApiError(error, 'NotFound')) return undefined
        if (!isApiError(error, 'Conflict') || attempt === MAX_ATTEMPTS) throw error
      }
      const raw = await findObject(this.#options.resources, webhookEvents, ref)
      current = readOutline(raw)
      if (current?.metadata.uid === uid && !mayFollow(current.status?.state, status)) return current
    }
    return undefined
  }
}

/** An unreadable status is overwritten. */
function readOutline(raw: RawObject | undefined): EventOutline | undefined {
  if (raw === undefined) return undefined
  return eventOutline.safeParse(raw).data ?? eventOutline.safeParse({ ...raw, status: undefined }).data
}

/**
 * An appended event is delivered whatever its status said before, and a final status stays. A status without deliveries is from a replica
 * that did not know of the acceptance.
 */
function mayFollow(
  before: EventState | undefined,
  { state, deliveries }: Partial<WebhookEventStatus>,
): boolean {
  if (before === 'refused') return state !== 'refused'
  return before === undefined || (before === 'accepted' && state === 'dispatched' && deliveries !== 0)
}

type ReconcileEventsOptions = PublishEventsOptions &
  EventExpiryOptions &
  EventStatusOptions & {
    counters: PendingCounters
    quota: PublishQuota
    recorder: EventRecorder
  }

const BATCH = 200
const POLL_MS = 2000
const UNTIL_COMPLETE_MS = 100
/** Between two passes that only retry rejected writes. */
const REJECTED_RETRY_MS = 1000
/** Rejections are reported after this time even if there is more to do. */
const REPORT_AFTER_MS = 10_000

export class EventsReconciler implements Reconciler {
  readonly #options: ReconcileEventsOptions
  readonly #unconfirmed: UnconfirmedAppends
  readonly #expiry: EventExpiry
  readonly #status: EventStatusWriter
  /** For events without a state, by UID. */
  readonly #decisions = new Map<string, EventDecision>()

  constructor(options: ReconcileEventsOptions) {
    this.#options = options
    this.#expiry = new EventExpiry(options)
    this.#status = new EventStatusWriter(options)
    this.#unconfirmed = options.unconfirmed
    options.store.onSettled = (uid) => {
      this.#decisions.delete(uid)
      this.#status.backoff.forget(uid)
      this.#expiry.forget(uid)
    }
    options.store.onFinished = (name) => this.#unconfirmed.forget(name)
  }

  /** All known deliveries of an event have ended. @param version of their segment @returns the organization to reconcile, if known */
  delivered(name: string, version: number): string | undefined {
    const namespace = this.#options.store.accepted(name)?.metadata.namespace
    this.#unconfirmed.delivered(name, version, namespace)
    return namespace
  }

  /** Another replica owns this organization's events from now on. Call it when no pass over them is running. */
  release(namespace: string): void {
    for (const event of this.#options.store.waitingIn(namespace)) {
      this.#decisions.delete(event.metadata.uid)
      this.#unconfirmed.forget(eventName(event))
    }
  }

  /** @param namespace the key is the organization @throws Error at the end, if the API server rejects the status of some events */
  async reconcile(namespace: string): Promise<ReconcileResult> {
    const afterMs = await this.#pass(namespace)
    // An error delays the next pass, so report it when there is nothing more to do, or after some time.
    this.#status.throwIfRejected(namespace, afterMs === 0 ? REPORT_AFTER_MS : 0)
    return afterMs === undefined ? noRequeue() : requeueAfter(afterMs)
  }

  /** @returns milliseconds until the next pass; undefined: when something changes */
  async #pass(namespace: string): Promise<number | undefined> {
    await this.#finish(namespace)
    const expiry = await this.#expiry.pass(namespace)
    const accepting = await this.#accept(namespace)
    const writing = await this.#write(namespace)
    const finishing = this.#options.store.acceptedIn(namespace).length > 0 ? POLL_MS : undefined
    const waits = [expiry, accepting, writing, finishing].filter((wait) => wait !== undefined)
    return waits.length === 0 ? undefined : Math.max(0, Math.min(...waits))
  }

  /** Decides some of the waiting events. @returns milliseconds until it can go on; undefined if none is left */
  async #accept(namespace: string): Promise<number | undefined> {
    const { store } = this.#options
    const waiting = store.waitingIn(namespace)
    const undecided = waiting.filter((event) => !this.#decisionOf(event))
    if (undecided.length === 0) return undefined
    if (!store.isComplete()) return UNTIL_COMPLETE_MS
    if (!mayDecideMore(waiting.length - undecided.length, this.#decisions.size)) return POLL_MS
    this.#unconfirmed.expire()
    const remaining = this.#options.quota.remaining(namespace)
    if (typeof remaining === 'object') {
      this.#recordExceeded(remaining)
      return POLL_MS
    }
    const decided = await this.#decide(namespace, undecided.slice(0, BATCH), remaining)
    for (const { event, decision } of decided)
      if (store.isWaiting(event)) this.#decisions.set(event.metadata.uid, decision)
    if (decided.length === 0) return UNTIL_COMPLETE_MS
    return decided.length < undecided.length ? 0 : undefined
  }

  async #decide(namespace: string, events: readonly EventOutline[], quota: number): Promise<DecidedEvent[]> {
    try {
      return await publishEvents(this.#options, namespace, events, quota, PART_MS)
    } finally {
      // Events deleted meanwhile were forgotten before they were appended.
      for (const event of events)
        if (!this.#options.store.isOpen(event)) this.#unconfirmed.forget(eventName(event))
    }
  }

  /** Writes the status of decided events. @returns milliseconds until the next write; undefined if none is left */
  async #write(namespace: string): Promise<number | undefined> {
    const { store, clock } = this.#options
    const until = clock.monotonic() + PART_MS
    const unwritten = () => store.waitingIn(namespace).filter((event) => this.#decisionOf(event))
    for (const event of this.#status.backoff.due(unwritten())) {
      if (clock.monotonic() > until) return 0
      const decision = this.#decisionOf(event)
      if (!decision || this.#status.backoff.waitOf(event) > 0) continue
      const name = eventName(event)
      const isOver = this.#unconfirmed.wasDelivered(name) && this.#options.counters.ofEvent(name) === 0
      await this.#status.write(event, eventStatus(event, decision, clock.now(), isOver))
    }
    const waits = unwritten().map((event) => this.#status.backoff.waitOf(event))
    return waits.length === 0 ? undefined : Math.max(REJECTED_RETRY_MS, Math.min(...waits))
  }

  #decisionOf({ metadata }: EventOutline): EventDecision | undefined {
    return this.#decisions.get(metadata.uid)
  }

  /** Shows at the endpoint with the largest backlog why events wait. */
  #recordExceeded({ reason, message, fullest }: QuotaExceeded): void {
    if (!fullest) return
    const { kind } = webhookEndpointKind
    this.#options.recorder.record(
      { apiVersion: API_VERSION, kind, metadata: fullest.endpoint },
      { type: 'Warning', reason, message },
    )
  }

  /** Writes the final status of events whose deliveries have all ended. */
  async #finish(namespace: string): Promise<void> {
    const { store, counters, clock } = this.#options
    const until = clock.monotonic() + PART_MS
    for (const event of this.#status.backoff.due(store.acceptedIn(namespace))) {
      if (clock.monotonic() > until) return
      const name = eventName(event)
      if (counters.ofEvent(name) > 0 || this.#unconfirmed.mayStillArrive(name, store.acceptedAt(name)))
        continue
      if (this.#status.backoff.waitOf(event) > 0) continue
      await this.#status.write(event, {
        state: 'dispatched',
        finishedAt: new Date(clock.now()).toISOString(),
      })
    }
  }
}
