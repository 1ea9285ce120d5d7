/** Writes what became of a WebhookEvent. One whose status cannot be written holds up none of the others. */
import { type EventOutline, eventOutline } from '../../api/event-outline.ts'
import { type EventState, type WebhookEventStatus, webhookEvents } from '../../api/webhook-event.ts'
import type { Clock } from '../../ports/clock.ts'
import {
  isApiError,
  type RawObject,
  type ResourceReader,
  type ResourceWriter,
} from '../../ports/kubernetes.ts'
import { findObject } from '../../runtime/find-object.ts'
import type { EventBook } from './event-book.ts'

export type EventStatusOptions = {
  resources: ResourceReader
  writer: ResourceWriter
  book: EventBook
  clock: Clock
  /** The API server refuses this one; it is tried again after a while. */
  onNotWritten: (event: EventOutline, error: unknown) => void
}

/** After a refusal of one event alone. */
export const WRITE_AGAIN_MS = 60_000
/** More of those are tried again sooner. */
const MAX_LATER = 10_000
/** Somebody changes an event now and then, not all the time. */
const MAX_ATTEMPTS = 5

export class EventStatus {
  readonly #options: EventStatusOptions
  /** What was refused, by UID, and from when on it is tried again, monotonic. */
  readonly #later = new Map<string, number>()

  constructor(options: EventStatusOptions) {
    this.#options = options
  }

  /** Whether it is time to write it: not soon after the API server has refused that. */
  mayWrite({ metadata }: EventOutline): boolean {
    const later = this.#later.get(metadata.uid)
    return later === undefined || this.#options.clock.monotonic() >= later
  }

  /** @throws ApiError of what is not this event's alone: the API server is away, or busy */
  async write(event: EventOutline, status: Partial<WebhookEventStatus>): Promise<void> {
    const { book, clock, onNotWritten } = this.#options
    const { uid } = event.metadata
    book.writing(event)
    try {
      const written = await this.#patch(event, status)
      book.wrote(written ?? { ...event, status }, written && Number(written.metadata.resourceVersion))
      this.#later.delete(uid)
    } catch (error) {
      book.wroteInVain(event)
      if (!isApiError(error, 'Invalid', 'BadRequest', 'TooLarge', 'Forbidden', 'Conflict')) throw error
      if (this.#later.size >= MAX_LATER) this.#later.clear()
      this.#later.set(uid, clock.monotonic() + WRITE_AGAIN_MS)
      onNotWritten(event, error)
    }
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
      if (held?.metadata.uid === uid && !mayFollow(held.status?.state, status.state)) return held
    }
    return undefined
  }
}

/** A status that nobody can read says nothing, and is written over. */
function readOutline(raw: RawObject | undefined): EventOutline | undefined {
  if (raw === undefined) return undefined
  return eventOutline.safeParse(raw).data ?? eventOutline.safeParse({ ...raw, status: undefined }).data
}

/** What was appended is delivered, whatever was said of it before; what is said of an end stays. */
function mayFollow(before: EventState | undefined, next: EventState | undefined): boolean {
  if (before === 'refused') return next !== 'refused'
  return before === undefined || (before === 'accepted' && next === 'dispatched')
}
