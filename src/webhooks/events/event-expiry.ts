import type { EventOutline } from '../../apis/event-outline.ts'
import { webhookEvents } from '../../apis/webhook-event.ts'
import { isApiError, type ResourceWriter } from '../../kube/client.ts'
import type { BackoffLimits } from '../../lib/backoff.ts'
import type { Clock, Random } from '../../lib/ports-clock.ts'
import { WriteBackoff } from './refused-writes.ts'
import type { WebhookEventStore } from './store.ts'

export type EventExpiryOptions = {
  book: WebhookEventStore
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
    const { book, clock, time, partMs, onNotDeleted } = this.#options
    const now = time.now()
    const until = clock.monotonic() + partMs
    const errors: unknown[] = []
    const expired = book.expiringIn(namespace).filter((event) => expiresIn(event, now) <= 0)
    for (const event of this.#refused.due(expired)) {
      if (clock.monotonic() > until) break
      if (this.#refused.waitOf(event) === 0)
        await this.#delete(event).catch((error: unknown) => errors.push(error))
    }
    if (errors.length > 0) onNotDeleted(errors[0])
    const waits = book.expiringIn(namespace).map((event) => this.#waitOf(event, now))
    return waits.length === 0 ? undefined : Math.min(...waits)
  }

  /** Milliseconds until it is to be deleted, or that is tried again. */
  #waitOf(event: EventOutline, now: number): number {
    return Math.max(expiresIn(event, now), this.#refused.waitOf(event))
  }

  async #delete(event: EventOutline): Promise<void> {
    const { book, writer } = this.#options
    const { uid } = event.metadata
    try {
      await writer.delete(webhookEvents, event.metadata, { uid })
    } catch (error) {
      if (!isApiError(error, 'NotFound', 'Conflict')) {
        if (book.isOpen(event)) this.#refused.add(event)
        throw error
      }
    }
    this.forget(uid)
    book.remove(event)
  }
}

/** Milliseconds until its time is over; 0 or less where it is. */
function expiresIn({ metadata, spec, status }: EventOutline, now: number): number {
  const created = Date.parse(metadata.creationTimestamp)
  // By a clock that was ahead it stays for longer; by one that was behind it does not go at once.
  const finished = Math.max(created, Date.parse(status?.finishedAt ?? '') || created)
  return finished + (spec.ttlSecondsAfterFinished ?? 0) * 1000 - now
}
