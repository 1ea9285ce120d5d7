import type { EventOutline } from '../../api/event-outline.ts'
import { webhookEvents } from '../../api/webhook-event.ts'
import type { Clock } from '../../ports/clock.ts'
import { isApiError, type ResourceWriter } from '../../ports/kubernetes.ts'
import type { EventBook } from './event-book.ts'

export type EventExpiryOptions = {
  book: EventBook
  writer: ResourceWriter
  clock: Clock
  /** The wall time for ages. */
  time: Pick<Clock, 'now'>
  /** A pass takes so long at most, in milliseconds. */
  partMs: number
  /** Some that have expired cannot be deleted; this is why the first of them could not. */
  onNotDeleted: (error: unknown) => void
}

/** What could not be deleted. */
const AGAIN_MS = 60_000
/** More of those are tried again sooner. */
const MAX_LATER = 10_000

/** Deletes events that have finished, and were to stay for a time after that (spec.ttlSecondsAfterFinished). */
export class EventExpiry {
  readonly #options: EventExpiryOptions
  /** What could not be deleted, by UID, and from when on it is tried again, monotonic. */
  readonly #later = new Map<string, number>()

  constructor(options: EventExpiryOptions) {
    this.#options = options
  }

  /** What cannot be deleted holds up nothing else. @returns milliseconds until the next one expires, or is tried again */
  async pass(namespace: string): Promise<number | undefined> {
    const { book, clock, time, partMs, onNotDeleted } = this.#options
    const now = time.now()
    const until = clock.monotonic() + partMs
    const waits: number[] = []
    const errors: unknown[] = []
    for (const event of book.expiringIn(namespace)) {
      if (clock.monotonic() > until) {
        waits.push(0)
        break
      }
      const waitMs = this.#waitOf(event, now)
      if (waitMs > 0) waits.push(waitMs)
      else await this.#delete(event).catch((error: unknown) => errors.push(error))
    }
    if (errors.length > 0) {
      onNotDeleted(errors[0])
      waits.push(AGAIN_MS)
    }
    return waits.length === 0 ? undefined : Math.min(...waits)
  }

  /** Milliseconds until it is to be deleted, or that is tried again. */
  #waitOf({ metadata, spec, status }: EventOutline, now: number): number {
    const later = this.#later.get(metadata.uid)
    if (later !== undefined) return later - this.#options.clock.monotonic()
    const created = Date.parse(metadata.creationTimestamp)
    // By a clock that was ahead it stays for longer; by one that was behind it does not go at once.
    const finished = Math.max(created, Date.parse(status?.finishedAt ?? '') || created)
    return finished + (spec.ttlSecondsAfterFinished ?? 0) * 1000 - now
  }

  async #delete(event: EventOutline): Promise<void> {
    const { book, clock, writer } = this.#options
    const { uid } = event.metadata
    if (this.#later.size >= MAX_LATER) this.#later.clear()
    this.#later.set(uid, clock.monotonic() + AGAIN_MS)
    try {
      await writer.delete(webhookEvents, event.metadata, { uid })
    } catch (error) {
      if (!isApiError(error, 'NotFound', 'Conflict')) throw error
    }
    this.#later.delete(uid)
    book.remove(event)
  }
}
