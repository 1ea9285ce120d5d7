/** One pass over the WebhookEvents of a namespace: accept what waits, finish what has been delivered, delete what has expired. */
import type { EventOutline } from '../../api/event-outline.ts'
import { API_VERSION } from '../../api/meta.ts'
import { webhookEndpointKind } from '../../api/webhook-endpoint.ts'
import { conditionsAfter, type Finding } from '../../domain/conditions.ts'
import type { EventRecorder } from '../../ports/event-recorder.ts'
import { after, done, type Reconciler, type Result } from '../../runtime/reconcile-loop.ts'
import type { Tally } from '../delivery/tally.ts'
import type { IntakeRoom, NoRoom } from '../publish/intake-room.ts'
import { type AcceptEventsOptions, acceptEvents, type Verdict } from './accept-events.ts'
import { eventIdOf, eventName } from './event-book.ts'
import { EventExpiry, type EventExpiryOptions } from './event-expiry.ts'
import { EventStatus, type EventStatusOptions } from './event-status.ts'
import type { UnseenEvents } from './unseen-events.ts'

export type ReconcileEventsOptions = Omit<AcceptEventsOptions, 'appending' | 'room' | 'lookMs'> &
  Omit<EventExpiryOptions, 'partMs'> &
  EventStatusOptions & {
    tally: Tally
    unseen: UnseenEvents
    room: IntakeRoom
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

export class EventsReconciler implements Reconciler {
  readonly #options: ReconcileEventsOptions
  readonly #unseen: UnseenEvents
  readonly #expiry: EventExpiry
  readonly #status: EventStatus

  constructor(options: ReconcileEventsOptions) {
    this.#options = options
    this.#expiry = new EventExpiry({ ...options, partMs: PART_MS })
    this.#status = new EventStatus(options)
    this.#unseen = options.unseen
  }

  /** The last delivery of an event has come to its end. @returns the organization to look at, if it is known */
  delivered(name: string): string | undefined {
    this.#unseen.delivered(name)
    return this.#options.book.accepted(name)?.metadata.namespace
  }

  /**
   * @param namespace the key is the organization
   * @throws Error after everything else, where the API server refuses the status of some events
   */
  async reconcile(namespace: string): Promise<Result> {
    const result = await this.#pass(namespace)
    // Not while there is more to do: a pass that fails is followed by a wait.
    if (result.afterMs !== 0) this.#status.tellRefused(namespace)
    return result
  }

  async #pass(namespace: string): Promise<Result> {
    const { book } = this.#options
    await this.#finish(namespace)
    const nextExpiry = await this.#expiry.pass(namespace)
    const waiting = this.#waitingIn(namespace)
    if (waiting.length > 0) {
      if (!book.complete()) return after(UNTIL_COMPLETE_MS)
      this.#unseen.forgetOld()
      const room = this.#options.room.of(namespace)
      if (typeof room === 'object') {
        this.#tell(room)
        return after(LOOK_AGAIN_MS)
      }
      const appending = (name: string, deliveries: number) =>
        this.#unseen.appending(name, namespace, deliveries)
      const options = { ...this.#options, appending, room, lookMs: PART_MS }
      for (const verdict of await acceptEvents(options, namespace, waiting.slice(0, BATCH)))
        await this.#note(verdict)
      if (this.#waitingIn(namespace).length > 0) return after(0)
    }
    if (book.acceptedIn(namespace).length > 0) return after(LOOK_AGAIN_MS)
    const writes = book.waitingIn(namespace).map((event) => this.#status.waitOf(event))
    const next = writes.reduce((first, wait) => Math.min(first, wait), nextExpiry ?? Number.POSITIVE_INFINITY)
    return Number.isFinite(next) ? after(next) : done()
  }

  #waitingIn(namespace: string): EventOutline[] {
    return this.#options.book.waitingIn(namespace).filter((event) => this.#status.waitOf(event) === 0)
  }

  /** Whoever looks why an event waits finds it at the endpoint that is in the way. */
  #tell({ reason, message, fullest }: NoRoom): void {
    if (!fullest) return
    const { kind } = webhookEndpointKind
    this.#options.events.record(
      { apiVersion: API_VERSION, kind, metadata: fullest },
      { type: 'Warning', reason, message },
    )
  }

  async #note(verdict: Verdict): Promise<void> {
    const { clock } = this.#options
    const { event } = verdict
    const at = { now: clock.now(), generation: event.metadata.generation ?? 1 }
    const finishedAt = new Date(at.now).toISOString()
    if (verdict.kind === 'refused') {
      const { reason, message } = verdict.refusal
      const findings: Finding[] = [
        { type: 'Ready', status: 'False', reason, message },
        { type: 'Stalled', status: 'True', reason, message },
      ]
      return await this.#status.write(event, {
        state: 'refused',
        finishedAt,
        observedGeneration: at.generation,
        conditions: conditionsAfter([], findings, at),
      })
    }
    const { deliveries } = verdict
    const none = deliveries === 0
    const over = none || this.#unseen.wasDelivered(eventName(event))
    const message = none
      ? 'No enabled endpoint subscribes to its type.'
      : `It goes to ${deliveries} endpoint(s).`
    const findings: Finding[] = [
      { type: 'Ready', status: 'True', reason: none ? 'NobodySubscribed' : 'Accepted', message },
    ]
    await this.#status.write(event, {
      state: over ? 'dispatched' : 'accepted',
      eventId: eventIdOf(event),
      deliveries,
      ...(over ? { finishedAt } : {}),
      observedGeneration: at.generation,
      conditions: conditionsAfter([], findings, at),
    })
  }

  /** Every delivery of these has come to its end. */
  async #finish(namespace: string): Promise<void> {
    const { book, tally, clock } = this.#options
    const until = clock.monotonic() + PART_MS
    for (const event of book.acceptedIn(namespace)) {
      if (clock.monotonic() > until) return
      const name = eventName(event)
      if (tally.ofEvent(name) > 0 || this.#unseen.mayComeYet(name)) continue
      if (this.#status.waitOf(event) > 0) continue
      this.#unseen.forget(name)
      await this.#status.write(event, {
        state: 'dispatched',
        finishedAt: new Date(clock.now()).toISOString(),
      })
    }
  }
}
