/**
 * One pass over the WebhookEvents of a namespace: finish what has been delivered, delete what has expired, accept what waits. What
 * was decided of an event is decided once, and kept until the API server takes the status that says so: an event that was sent
 * is not judged again by what has changed since.
 */
import type { EventOutline } from '../../apis/event-outline.ts'
import { API_VERSION } from '../../apis/meta.ts'
import { webhookEndpointKind } from '../../apis/webhook-endpoint.ts'
import type { EventRecorder } from '../../kube/event-recorder.ts'
import { noRequeue, type ReconcileResult, type Reconciler, requeueAfter } from '../../kube/reconcile-loop.ts'
import type { PendingCounters } from '../delivery/counters.ts'
import { type DecidedEvent, type PublishEventsOptions, publishEvents } from './accept-events.ts'
import { EventExpiry, type EventExpiryOptions } from './event-expiry.ts'
import { type EventStatusOptions, EventStatusWriter } from './event-status.ts'
import type { PublishQuota, QuotaExceeded } from './quota.ts'
import { eventName } from './store.ts'
import type { UnconfirmedAppends } from './unseen-events.ts'
import { type EventDecision, eventStatus, mayDecideMore } from './verdict.ts'

/** What an append tells of, and asks. */
type AppendCallbacks = Pick<PublishEventsOptions, 'appending' | 'appended' | 'found' | 'isUnanswered'>

export type ReconcileEventsOptions = Omit<PublishEventsOptions, keyof AppendCallbacks | 'room' | 'lookMs'> &
  Omit<EventExpiryOptions, 'partMs'> &
  EventStatusOptions & {
    counters: PendingCounters
    unconfirmed: UnconfirmedAppends
    quota: PublishQuota
    events: EventRecorder
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
    options.book.onSettled = (uid) => {
      this.#verdicts.delete(uid)
      this.#status.forget(uid)
      this.#expiry.forget(uid)
    }
    options.book.onFinished = (name) => this.#unseen.forget(name)
  }

  /** The last delivery of an event has come to its end, by what is known. @param version of the log @returns the organization to look at, if it is known */
  delivered(name: string, version: number): string | undefined {
    const namespace = this.#options.book.accepted(name)?.metadata.namespace
    this.#unseen.delivered(name, version, namespace)
    return namespace
  }

  /** Another replica decides of this organization's events from here on. Call it when no pass over them is under way. */
  release(namespace: string): void {
    for (const event of this.#options.book.waitingIn(namespace)) {
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
    const finishing = this.#options.book.acceptedIn(namespace).length > 0 ? LOOK_AGAIN_MS : undefined
    const waits = [expiry, accepting, writing, finishing].filter((wait) => wait !== undefined)
    return waits.length === 0 ? undefined : Math.max(0, Math.min(...waits))
  }

  /** Decides of some of what waits. @returns milliseconds until it can go on; undefined where nothing is left */
  async #accept(namespace: string): Promise<number | undefined> {
    const { book } = this.#options
    const waiting = book.waitingIn(namespace)
    const unjudged = waiting.filter((event) => !this.#verdictOf(event))
    if (unjudged.length === 0) return undefined
    if (!book.isComplete()) return UNTIL_COMPLETE_MS
    if (!mayDecideMore(waiting.length - unjudged.length, this.#verdicts.size)) return LOOK_AGAIN_MS
    this.#unseen.expire()
    const room = this.#options.quota.remaining(namespace)
    if (typeof room === 'object') {
      this.#tell(room)
      return LOOK_AGAIN_MS
    }
    const judged = await this.#judge(namespace, unjudged.slice(0, BATCH), room)
    for (const { event, verdict } of judged)
      if (book.isWaiting(event)) this.#verdicts.set(event.metadata.uid, verdict)
    if (judged.length === 0) return UNTIL_COMPLETE_MS
    return judged.length < unjudged.length ? 0 : undefined
  }

  async #judge(namespace: string, events: readonly EventOutline[], room: number): Promise<DecidedEvent[]> {
    const unseen = this.#unseen
    const told: AppendCallbacks = {
      appending: (name, deliveries) => unseen.appending(name, namespace, deliveries),
      appended: (name, version) => unseen.appended(name, version),
      found: (name) => unseen.found(name, namespace),
      isUnanswered: (name) => unseen.isUnanswered(name),
    }
    try {
      return await publishEvents({ ...this.#options, ...told, room, lookMs: PART_MS }, namespace, events)
    } finally {
      // What has gone meanwhile was told to be over before this was told of it.
      for (const event of events) if (!this.#options.book.isOpen(event)) unseen.forget(eventName(event))
    }
  }

  /** Says in their status what was decided of events. @returns milliseconds until more is to be said; undefined where nothing is left */
  async #write(namespace: string): Promise<number | undefined> {
    const { book, clock } = this.#options
    const until = clock.monotonic() + PART_MS
    const unwritten = () => book.waitingIn(namespace).filter((event) => this.#verdictOf(event))
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
    this.#options.events.record(
      { apiVersion: API_VERSION, kind, metadata: fullest },
      { type: 'Warning', reason, message },
    )
  }

  /** Every delivery of these has come to its end. */
  async #finish(namespace: string): Promise<void> {
    const { book, counters, clock } = this.#options
    const until = clock.monotonic() + PART_MS
    for (const event of this.#status.due(book.acceptedIn(namespace))) {
      if (clock.monotonic() > until) return
      const name = eventName(event)
      if (counters.ofEvent(name) > 0 || this.#unseen.mayComeYet(name, book.acceptedAt(name))) continue
      if (this.#status.waitOf(event) > 0) continue
      await this.#status.write(event, {
        state: 'dispatched',
        finishedAt: new Date(clock.now()).toISOString(),
      })
    }
  }
}
