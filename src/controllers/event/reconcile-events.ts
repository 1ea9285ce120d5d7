/** One pass over the WebhookEvents of a namespace: accept what waits, finish what has been delivered, delete what has expired. */
import { type EventOutline, eventOutline } from '../../api/event-outline.ts'
import { API_VERSION } from '../../api/meta.ts'
import { webhookEndpointKind } from '../../api/webhook-endpoint.ts'
import { type EventState, type WebhookEventStatus, webhookEvents } from '../../api/webhook-event.ts'
import { conditionsAfter, type Finding } from '../../domain/conditions.ts'
import type { EventRecorder } from '../../ports/event-recorder.ts'
import { isApiError } from '../../ports/kubernetes.ts'
import { after, done, type Reconciler, type Result } from '../../runtime/reconcile-loop.ts'
import type { Tally } from '../delivery/tally.ts'
import type { IntakeRoom, NoRoom } from '../publish/intake-room.ts'
import { type AcceptEventsOptions, acceptEvents, type Verdict } from './accept-events.ts'
import { eventIdOf, eventName } from './event-book.ts'
import { EventExpiry, type EventExpiryOptions } from './event-expiry.ts'
import type { UnseenEvents } from './unseen-events.ts'

export type ReconcileEventsOptions = Omit<AcceptEventsOptions, 'appending' | 'room' | 'lookMs'> &
  Omit<EventExpiryOptions, 'partMs'> & {
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
/** Somebody changes an event now and then, not all the time. */
const MAX_ATTEMPTS = 5

export class EventsReconciler implements Reconciler {
  readonly #options: ReconcileEventsOptions
  readonly #unseen: UnseenEvents
  readonly #expiry: EventExpiry

  constructor(options: ReconcileEventsOptions) {
    this.#options = options
    this.#expiry = new EventExpiry({ ...options, partMs: PART_MS })
    this.#unseen = options.unseen
  }

  /** The last delivery of an event has come to its end. @returns the organization to look at, if it is known */
  delivered(name: string): string | undefined {
    this.#unseen.delivered(name)
    return this.#options.book.accepted(name)?.metadata.namespace
  }

  /** @param namespace the key is the organization */
  async reconcile(namespace: string): Promise<Result> {
    const { book } = this.#options
    await this.#finish(namespace)
    const nextExpiry = await this.#expiry.pass(namespace)
    const waiting = book.waitingIn(namespace)
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
      if (book.waitingIn(namespace).length > 0) return after(0)
    }
    if (book.acceptedIn(namespace).length > 0) return after(LOOK_AGAIN_MS)
    return nextExpiry === undefined ? done() : after(nextExpiry)
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
      return await this.#write(event, {
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
    await this.#write(event, {
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
      this.#unseen.forget(name)
      await this.#write(event, { state: 'dispatched', finishedAt: new Date(clock.now()).toISOString() })
    }
  }

  async #write(event: EventOutline, status: Partial<WebhookEventStatus>): Promise<void> {
    const { book } = this.#options
    book.writing(event)
    try {
      const written = await this.#patch(event, status)
      book.wrote(written ?? { ...event, status }, written && Number(written.metadata.resourceVersion))
    } catch (error) {
      book.wroteInVain(event)
      throw error
    }
  }

  /**
   * Over the version that was decided on. Where somebody else has written, it is written only if it may follow that.
   * @returns the event as it is then; undefined where it has gone or is another one
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
      held = await this.#read(ref)
      if (held?.metadata.uid === uid && !mayFollow(held.status?.state, status.state)) return held
    }
    return undefined
  }

  async #read(ref: { namespace: string; name: string }): Promise<EventOutline | undefined> {
    try {
      return eventOutline.parse(await this.#options.resources.get(webhookEvents, ref))
    } catch (error) {
      if (isApiError(error, 'NotFound')) return undefined
      throw error
    }
  }
}

/** What was appended is delivered, whatever was said of it before; what is said of an end stays. */
function mayFollow(before: EventState | undefined, next: EventState | undefined): boolean {
  if (before === 'refused') return next !== 'refused'
  return before === undefined || (before === 'accepted' && next === 'dispatched')
}
