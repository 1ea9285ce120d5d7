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
import type { Clock, Random } from '../../lib/clock.ts'
import { type BackoffLimits, backoffMs } from '../../lib/sleep.ts'
import type { PendingCounters } from '../delivery/counters.ts'
import { type DecidedEvent, type PublishEventsOptions, publishEvents } from './accept.ts'
import { type EventDecision, eventStatus, mayDecideMore } from './plan.ts'
import type { PublishQuota, QuotaExceeded } from './quota.ts'
import { eventName, type UnconfirmedAppends, type WebhookEventStore } from './store.ts'

/**
 * When a write that the API server refused for one event alone is tried again: after a wait that grows, and in one organization
 * only so many in a while, so that a policy that refuses thousands of them does not cost hundreds of calls a second.
 */

/** Refusals of one organization in a while, after which none is tried again until it is over. What succeeds does not count. */
const AT_MOST = 20
const WHILE_MS = 2000

type Refused = { at: number; refusals: number }
type RefusalWindow = { until: number; refusals: number }

export class WriteBackoff {
  readonly #clock: Clock
  readonly #random: Random
  readonly #limits: BackoffLimits
  /** By UID: when it is due again, monotonic, after so many refusals in a row. */
  readonly #refused = new Map<string, Refused>()
  /** By organization. */
  readonly #whiles = new Map<string, RefusalWindow>()

  constructor({ clock, random }: { clock: Clock; random: Random }, limits: BackoffLimits) {
    this.#clock = clock
    this.#random = random
    this.#limits = limits
  }

  /** Events that it knows of. */
  get size(): number {
    return this.#refused.size
  }

  /** @returns for how long it is not to be tried, milliseconds; 0 where it is due, or was never refused */
  waitOf({ metadata: { uid, namespace } }: EventOutline): number {
    const refused = this.#refused.get(uid)
    if (!refused) return 0
    const now = this.#clock.monotonic()
    const { until = now, refusals = 0 } = this.#whiles.get(namespace) ?? {}
    return Math.max(0, refused.at - now, refusals < AT_MOST ? 0 : until - now)
  }

  /** Those that are due: what was never refused in the order given, then what has waited longest since it was due. */
  due(events: readonly EventOutline[]): EventOutline[] {
    const at = ({ metadata }: EventOutline) => this.#refused.get(metadata.uid)?.at ?? 0
    return events.filter((event) => this.waitOf(event) === 0).sort((a, b) => at(a) - at(b))
  }

  add({ metadata: { uid, namespace } }: EventOutline): void {
    const now = this.#clock.monotonic()
    const refusals = (this.#refused.get(uid)?.refusals ?? 0) + 1
    this.#refused.set(uid, { at: now + backoffMs(refusals, this.#limits, this.#random), refusals })
    for (const [organization, { until }] of this.#whiles) if (until <= now) this.#whiles.delete(organization)
    const running = this.#whiles.get(namespace) ?? { until: now + WHILE_MS, refusals: 0 }
    running.refusals += 1
    this.#whiles.set(namespace, running)
  }

  /** It was done, or there is nothing to do any more. */
  forget(uid: string): void {
    this.#refused.delete(uid)
  }
}

type EventExpiryOptions = {
  store: WebhookEventStore
  writer: ResourceWriter
  clock: Clock
  random: Random
  /** The wall time for ages. */
  time: Pick<Clock, 'now'>
  /** A pass takes so long at most, in milliseconds. */
  partMs: number
  /** Some that have expired cannot be deleted; this is why the first of them could not. */
  onNotDeleted: (error: unknown) => void
}

/** Waits after one could not be deleted. */
const DELETE_RETRY: BackoffLimits = { firstMs: 60_000, longestMs: 600_000 }

/** Deletes events that have finished, and were to stay for a time after that (spec.ttlSecondsAfterFinished). */
export class EventExpiry {
  readonly #options: EventExpiryOptions
  readonly #refused: WriteBackoff

  constructor(options: EventExpiryOptions) {
    this.#options = options
    this.#refused = new WriteBackoff(options, DELETE_RETRY)
  }

  /** It has gone. */
  forget(uid: string): void {
    this.#refused.forget(uid)
  }

  /** What cannot be deleted holds up nothing else. @returns milliseconds until the next one expires, or is tried again */
  async pass(namespace: string): Promise<number | undefined> {
    const { store, clock, time, partMs, onNotDeleted } = this.#options
    const now = time.now()
    const until = clock.monotonic() + partMs
    const errors: unknown[] = []
    const expired = store.expiringIn(namespace).filter((event) => expiresIn(event, now) <= 0)
    for (const event of this.#refused.due(expired)) {
      if (clock.monotonic() > until) break
      if (this.#refused.waitOf(event) === 0)
        await this.#delete(event).catch((error: unknown) => errors.push(error))
    }
    if (errors.length > 0) onNotDeleted(errors[0])
    const waits = store.expiringIn(namespace).map((event) => this.#waitOf(event, now))
    return waits.length === 0 ? undefined : Math.min(...waits)
  }

  /** Milliseconds until it is to be deleted, or that is tried again. */
  #waitOf(event: EventOutline, now: number): number {
    return Math.max(expiresIn(event, now), this.#refused.waitOf(event))
  }

  async #delete(event: EventOutline): Promise<void> {
    const { store, writer } = this.#options
    const { uid } = event.metadata
    try {
      await writer.delete(webhookEvents, event.metadata, { uid })
    } catch (error) {
      if (!isApiError(error, 'NotFound', 'Conflict')) {
        if (store.isOpen(event)) this.#refused.add(event)
        throw error
      }
    }
    this.forget(uid)
    store.remove(event)
  }
}

/** Milliseconds until its time is over; 0 or less where it is. */
function expiresIn({ metadata, spec, status }: EventOutline, now: number): number {
  const created = Date.parse(metadata.creationTimestamp)
  // By a clock that was ahead it stays for longer; by one that was behind it does not go at once.
  const finished = Math.max(created, Date.parse(status?.finishedAt ?? '') || created)
  return finished + (spec.ttlSecondsAfterFinished ?? 0) * 1000 - now
}

/** Writes what became of a WebhookEvent. One whose status cannot be written holds up none of the others. */

type EventStatusOptions = {
  resources: ResourceReader
  writer: ResourceWriter
  store: WebhookEventStore
  clock: Clock
  random: Random
}

/** Waits after refusals of one event alone. An API server that has just started may know no rights yet, so the first is short. */
const STATUS_RETRY: BackoffLimits = { firstMs: 1000, longestMs: 60_000 }
/** Somebody changes an event now and then, not all the time. */
const MAX_ATTEMPTS = 5

/** What was refused since it was told; `since` is monotonic. */
type UnreportedFailures = { first: string; count: number; cause: unknown; since: number }

class EventStatusWriter {
  readonly #options: EventStatusOptions
  readonly #refused: WriteBackoff
  /** By organization. */
  readonly #untold = new Map<string, UnreportedFailures>()

  constructor(options: EventStatusOptions) {
    this.#options = options
    this.#refused = new WriteBackoff(options, STATUS_RETRY)
  }

  /** @returns for how long it is not to be written, since the API server has refused that; milliseconds, 0 or more */
  waitOf(event: EventOutline): number {
    return this.#refused.waitOf(event)
  }

  /** Those that may be written now, what was refused before last. */
  due(events: readonly EventOutline[]): EventOutline[] {
    return this.#refused.due(events)
  }

  /** Whatever was refused of this event, it is to be written no more. */
  forget(uid: string): void {
    this.#refused.forget(uid)
  }

  /**
   * Where the API server refuses the status of this event, it is told later (`tellRefused`).
   * @throws ApiError of what is not this event's alone: the API server is away, or busy
   */
  async write(event: EventOutline, status: Partial<WebhookEventStatus>): Promise<void> {
    const { store } = this.#options
    store.beginWrite(event)
    try {
      const written = await this.#patch(event, status)
      store.completeWrite(
        written ?? { ...event, status },
        written && Number(written.metadata.resourceVersion),
      )
      this.forget(event.metadata.uid)
    } catch (error) {
      store.failWrite(event)
      if (!isApiError(error, 'Invalid', 'BadRequest', 'TooLarge', 'Forbidden', 'Conflict')) throw error
      if (store.isOpen(event)) this.#refused.add(event)
      this.#note(event, error)
    }
  }

  /**
   * @param forMs only what was refused so long ago or before
   * @throws Error naming one of those that were refused since the last call, and how many
   */
  throwIfRefused(namespace: string, forMs: number): void {
    const untold = this.#untold.get(namespace)
    if (!untold || this.#options.clock.monotonic() - untold.since < forMs) return
    this.#untold.delete(namespace)
    const { first, count, cause } = untold
    const others = count > 1 ? ` and of ${count - 1} others` : ''
    throw new Error(`the status of the WebhookEvent ${namespace}/${first}${others} cannot be written`, {
      cause,
    })
  }

  #note({ metadata: { namespace, name } }: EventOutline, cause: unknown): void {
    const untold = this.#untold.get(namespace)
    if (untold) untold.count += 1
    else this.#untold.set(namespace, { first: name, count: 1, cause, since: this.#options.clock.monotonic() })
  }

  /**
   * Over the version that was decided on. Where somebody else has written, it is written only if it may follow that.
   * @returns the event as it is then; undefined where it has gone, is another one, or can be read no more
   */
  async #patch(event: EventOutline, status: Partial<WebhookEventStatus>): Promise<EventOutline | undefined> {
    const { namespace, name, uid } = event.metadata
    const ref = { namespace, name }
    let held: EventOutline | undefined = event
    for (let attempt = 1; held?.metadata.uid === uid; attempt += 1) {
      const { resourceVersion } = held.metadata
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
      held = readOutline(raw)
      if (held?.metadata.uid === uid && !mayFollow(held.status?.state, status)) return held
    }
    return undefined
  }
}

/** A status that nobody can read says nothing, and is written over. */
function readOutline(raw: RawObject | undefined): EventOutline | undefined {
  if (raw === undefined) return undefined
  return eventOutline.safeParse(raw).data ?? eventOutline.safeParse({ ...raw, status: undefined }).data
}

/**
 * What was appended is delivered, whatever was said of it before; what is said of an end stays. That nobody gets it is said by
 * one who had not heard that it was accepted.
 */
function mayFollow(
  before: EventState | undefined,
  { state, deliveries }: Partial<WebhookEventStatus>,
): boolean {
  if (before === 'refused') return state !== 'refused'
  return before === undefined || (before === 'accepted' && state === 'dispatched' && deliveries !== 0)
}

/**
 * One pass over the WebhookEvents of a namespace: finish what has been delivered, delete what has expired, accept what waits. What
 * was decided of an event is decided once, and kept until the API server takes the status that says so: an event that was sent
 * is not judged again by what has changed since.
 */

/** What an append tells of, and asks. */
type AppendCallbacks = Pick<PublishEventsOptions, 'appending' | 'appended' | 'found' | 'isUnanswered'>

export type ReconcileEventsOptions = Omit<PublishEventsOptions, keyof AppendCallbacks | 'room' | 'lookMs'> &
  Omit<EventExpiryOptions, 'partMs'> &
  EventStatusOptions & {
    counters: PendingCounters
    unconfirmed: UnconfirmedAppends
    quota: PublishQuota
    recorder: EventRecorder
  }

/** Events read and checked in one pass. */
const BATCH = 200
const LOOK_AGAIN_MS = 2000
/**
 * For each part of a pass; a busy API server answers two calls for each event. A shard that changes hands waits for the end of the
 * pass over its organizations.
 */
const PART_MS = 4000
const UNTIL_COMPLETE_MS = 100
/** Between two passes that have nothing to do but what was refused. */
const REFUSED_AGAIN_MS = 1000
/** What was refused is told at last, while there is more and more to do. */
const TELL_AFTER_MS = 10_000

export class EventsReconciler implements Reconciler {
  readonly #options: ReconcileEventsOptions
  readonly #unseen: UnconfirmedAppends
  readonly #expiry: EventExpiry
  readonly #status: EventStatusWriter
  /** Of events without a state, by UID. */
  readonly #verdicts = new Map<string, EventDecision>()

  constructor(options: ReconcileEventsOptions) {
    this.#options = options
    this.#expiry = new EventExpiry({ ...options, partMs: PART_MS })
    this.#status = new EventStatusWriter(options)
    this.#unseen = options.unconfirmed
    options.store.onSettled = (uid) => {
      this.#verdicts.delete(uid)
      this.#status.forget(uid)
      this.#expiry.forget(uid)
    }
    options.store.onFinished = (name) => this.#unseen.forget(name)
  }

  /** The last delivery of an event has come to its end, by what is known. @param version of the log @returns the organization to look at, if it is known */
  delivered(name: string, version: number): string | undefined {
    const namespace = this.#options.store.accepted(name)?.metadata.namespace
    this.#unseen.delivered(name, version, namespace)
    return namespace
  }

  /** Another replica decides of this organization's events from here on. Call it when no pass over them is under way. */
  release(namespace: string): void {
    for (const event of this.#options.store.waitingIn(namespace)) {
      this.#verdicts.delete(event.metadata.uid)
      this.#unseen.forget(eventName(event))
    }
  }

  /**
   * @param namespace the key is the organization
   * @throws Error after everything else, where the API server refuses the status of some events
   */
  async reconcile(namespace: string): Promise<ReconcileResult> {
    const afterMs = await this.#pass(namespace)
    // A pass that fails is followed by a wait, so not while there is more to do, unless that goes on and on.
    this.#status.throwIfRefused(namespace, afterMs === 0 ? TELL_AFTER_MS : 0)
    return afterMs === undefined ? noRequeue() : requeueAfter(afterMs)
  }

  /** @returns milliseconds until there is something to do; undefined: nothing, until something changes */
  async #pass(namespace: string): Promise<number | undefined> {
    await this.#finish(namespace)
    const expiry = await this.#expiry.pass(namespace)
    const accepting = await this.#accept(namespace)
    const writing = await this.#write(namespace)
    const finishing = this.#options.store.acceptedIn(namespace).length > 0 ? LOOK_AGAIN_MS : undefined
    const waits = [expiry, accepting, writing, finishing].filter((wait) => wait !== undefined)
    return waits.length === 0 ? undefined : Math.max(0, Math.min(...waits))
  }

  /** Decides of some of what waits. @returns milliseconds until it can go on; undefined where nothing is left */
  async #accept(namespace: string): Promise<number | undefined> {
    const { store } = this.#options
    const waiting = store.waitingIn(namespace)
    const unjudged = waiting.filter((event) => !this.#verdictOf(event))
    if (unjudged.length === 0) return undefined
    if (!store.isComplete()) return UNTIL_COMPLETE_MS
    if (!mayDecideMore(waiting.length - unjudged.length, this.#verdicts.size)) return LOOK_AGAIN_MS
    this.#unseen.expire()
    const room = this.#options.quota.remaining(namespace)
    if (typeof room === 'object') {
      this.#tell(room)
      return LOOK_AGAIN_MS
    }
    const judged = await this.#judge(namespace, unjudged.slice(0, BATCH), room)
    for (const { event, decision } of judged)
      if (store.isWaiting(event)) this.#verdicts.set(event.metadata.uid, decision)
    if (judged.length === 0) return UNTIL_COMPLETE_MS
    return judged.length < unjudged.length ? 0 : undefined
  }

  async #judge(namespace: string, events: readonly EventOutline[], room: number): Promise<DecidedEvent[]> {
    const unseen = this.#unseen
    const told: AppendCallbacks = {
      appending: (name, deliveries) => unseen.appending(name, namespace, deliveries),
      appended: (name, version) => unseen.appended(name, version),
      found: (name) => unseen.foundInLog(name, namespace),
      isUnanswered: (name) => unseen.isUnanswered(name),
    }
    try {
      return await publishEvents({ ...this.#options, ...told, room, lookMs: PART_MS }, namespace, events)
    } finally {
      // What has gone meanwhile was told to be over before this was told of it.
      for (const event of events) if (!this.#options.store.isOpen(event)) unseen.forget(eventName(event))
    }
  }

  /** Says in their status what was decided of events. @returns milliseconds until more is to be said; undefined where nothing is left */
  async #write(namespace: string): Promise<number | undefined> {
    const { store, clock } = this.#options
    const until = clock.monotonic() + PART_MS
    const unwritten = () => store.waitingIn(namespace).filter((event) => this.#verdictOf(event))
    for (const event of this.#status.due(unwritten())) {
      if (clock.monotonic() > until) return 0
      const verdict = this.#verdictOf(event)
      if (!verdict || this.#status.waitOf(event) > 0) continue
      const name = eventName(event)
      const isOver = this.#unseen.wasDelivered(name) && this.#options.counters.ofEvent(name) === 0
      await this.#status.write(event, eventStatus(event, verdict, { now: clock.now(), isOver }))
    }
    const waits = unwritten().map((event) => this.#status.waitOf(event))
    return waits.length === 0 ? undefined : Math.max(REFUSED_AGAIN_MS, Math.min(...waits))
  }

  #verdictOf({ metadata }: EventOutline): EventDecision | undefined {
    return this.#verdicts.get(metadata.uid)
  }

  /** Whoever looks why an event waits finds it at the endpoint that is in the way. */
  #tell({ reason, message, fullest }: QuotaExceeded): void {
    if (!fullest) return
    const { kind } = webhookEndpointKind
    this.#options.recorder.record(
      { apiVersion: API_VERSION, kind, metadata: fullest },
      { type: 'Warning', reason, message },
    )
  }

  /** Every delivery of these has come to its end. */
  async #finish(namespace: string): Promise<void> {
    const { store, counters, clock } = this.#options
    const until = clock.monotonic() + PART_MS
    for (const event of this.#status.due(store.acceptedIn(namespace))) {
      if (clock.monotonic() > until) return
      const name = eventName(event)
      if (counters.ofEvent(name) > 0 || this.#unseen.mayStillArrive(name, store.acceptedAt(name))) continue
      if (this.#status.waitOf(event) > 0) continue
      await this.#status.write(event, {
        state: 'dispatched',
        finishedAt: new Date(clock.now()).toISOString(),
      })
    }
  }
}
