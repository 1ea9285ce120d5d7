/** Writes what became of a WebhookEvent. One whose status cannot be written holds up none of the others. */
import { type EventOutline, eventOutline } from '../../apis/event-outline.ts'
import { type EventState, type WebhookEventStatus, webhookEvents } from '../../apis/webhook-event.ts'
import { isApiError, type RawObject, type ResourceReader, type ResourceWriter } from '../../kube/client.ts'
import { findObject } from '../../kube/find-object.ts'
import type { BackoffLimits } from '../../lib/backoff.ts'
import type { Clock, Random } from '../../lib/ports-clock.ts'
import { WriteBackoff } from './refused-writes.ts'
import type { WebhookEventStore } from './store.ts'

export type EventStatusOptions = {
  resources: ResourceReader
  writer: ResourceWriter
  book: WebhookEventStore
  clock: Clock
  random: Random
}

/** Waits after refusals of one event alone. An API server that has just started may know no rights yet, so the first is short. */
const STATUS_RETRY: BackoffLimits = { firstMs: 1000, longestMs: 60_000 }
/** Somebody changes an event now and then, not all the time. */
const MAX_ATTEMPTS = 5

/** What was refused since it was told; `since` is monotonic. */
type UnreportedFailures = { first: string; count: number; cause: unknown; since: number }

export class EventStatusWriter {
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
    const { book } = this.#options
    book.beginWrite(event)
    try {
      const written = await this.#patch(event, status)
      book.completeWrite(written ?? { ...event, status }, written && Number(written.metadata.resourceVersion))
      this.forget(event.metadata.uid)
    } catch (error) {
      book.failWrite(event)
      if (!isApiError(error, 'Invalid', 'BadRequest', 'TooLarge', 'Forbidden', 'Conflict')) throw error
      if (book.isOpen(event)) this.#refused.add(event)
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
