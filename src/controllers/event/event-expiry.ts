import type { EventOutline } from '../../api/event-outline.ts'
import { webhookEvents } from '../../api/webhook-event.ts'
import type { Clock } from '../../ports/clock.ts'
import { isApiError, type ResourceWriter } from '../../ports/kubernetes.ts'
import { SteadyTime } from '../retention/steady-time.ts'
import type { EventBook } from './event-book.ts'

export type EventExpiryOptions = {
  book: EventBook
  writer: ResourceWriter
  clock: Clock
  /** A pass takes so long at most, in milliseconds. */
  partMs: number
  /** Some that have expired cannot be deleted; this is why the first of them could not. */
  onNotDeleted: (error: unknown) => void
}

/** What could not be deleted. */
const AGAIN_MS = 60_000

/** Deletes events that have finished, and were to stay for a time after that (spec.ttlSecondsAfterFinished). */
export class EventExpiry {
  readonly #options: EventExpiryOptions
  readonly #time: SteadyTime

  constructor(options: EventExpiryOptions) {
    this.#options = options
    this.#time = new SteadyTime(options.clock)
  }

  /** What cannot be deleted holds up nothing else. @returns milliseconds until the next one expires, or is tried again */
  async pass(namespace: string): Promise<number | undefined> {
    const { book, clock, partMs, onNotDeleted } = this.#options
    const now = this.#time.now()
    let next: number | undefined
    let failure: { error: unknown } | undefined
    const until = clock.monotonic() + partMs
    for (const event of book.expiringIn(namespace)) {
      if (clock.monotonic() > until) return 0
      const created = Date.parse(event.metadata.creationTimestamp)
      // By a clock that was ahead it stays for longer; by one that was behind it does not go at once.
      const finished = Math.max(created, Date.parse(event.status?.finishedAt ?? '') || created)
      let left = finished + (event.spec.ttlSecondsAfterFinished ?? 0) * 1000 - now
      if (left <= 0) {
        const failed = await this.#delete(event)
        failure ??= failed
        if (!failed) continue
        left = AGAIN_MS
      }
      next = Math.min(next ?? left, left)
    }
    if (failure) onNotDeleted(failure.error)
    return next
  }

  async #delete(event: EventOutline): Promise<{ error: unknown } | undefined> {
    const { book, writer } = this.#options
    try {
      await writer.delete(webhookEvents, event.metadata, { uid: event.metadata.uid })
    } catch (error) {
      if (!isApiError(error, 'NotFound', 'Conflict')) return { error }
    }
    book.remove(event)
    return undefined
  }
}
