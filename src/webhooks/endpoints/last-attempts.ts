import type { DeliveryAttempt } from '../../apis/webhook-delivery.ts'
import { shardOf } from '../../ha/assignment.ts'
import type { Clock } from '../../lib/time.ts'
import type { EndpointIdentity } from './directory.ts'
import type { AttemptSummary } from './plan.ts'

/**
 * The last attempt of each endpoint, for its status. Busy endpoints attempt many times a second, so the status gets only some of them:
 * a new result soon, the same result once a minute, and no more updates a second than the API server hardly notices.
 */

/** How often the status of one endpoint is updated while its attempts have the same result. */
const SAME_RESULT_MS = 60_000
const FLUSH_MS = 1000
/** Updates of all endpoints at each flush. */
const UPDATES_PER_FLUSH = 5

type Tracked = {
  endpoint: EndpointIdentity
  latest: AttemptSummary
  /** What the status may show; stays until the next update, so that passes for other reasons write nothing new. */
  released: AttemptSummary
  releasedAt: number
}

export class LastAttempts {
  readonly #clock: Clock
  /** By endpoint UID. */
  readonly #tracked = new Map<string, Tracked>()
  /** UIDs whose result differs from the one in their status, and the others with newer attempts; the oldest first. */
  readonly #news = new Set<string>()
  readonly #repeats = new Set<string>()
  #cancelFlush: (() => void) | undefined

  /** The status of the endpoint is to be updated. */
  onDue: (endpoint: EndpointIdentity) => void = () => undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  record(
    endpoint: EndpointIdentity,
    deliveryId: string,
    { at, code, latencyMs, error }: DeliveryAttempt,
    succeeded: boolean,
  ): void {
    const { uid } = endpoint
    const before = this.#tracked.get(uid)
    const lastAttempt = {
      deliveryId,
      at,
      latencyMs,
      ...(code === undefined ? {} : { code }),
      ...(error === undefined ? {} : { error }),
    }
    const lastSuccessTime = succeeded ? at : before?.latest.lastSuccessTime
    const latest = { lastAttempt, ...(lastSuccessTime === undefined ? {} : { lastSuccessTime }) }
    const tracked = before ?? { endpoint, latest, released: {}, releasedAt: Number.NEGATIVE_INFINITY }
    this.#tracked.set(uid, { ...tracked, latest })
    if (!hasSameResult(tracked.released, latest)) this.#news.add(uid)
    else this.#repeats.add(uid)
    this.#scheduleFlush()
  }

  /** What the status of the endpoint may show. */
  of(uid: string): AttemptSummary {
    return this.#tracked.get(uid)?.released ?? {}
  }

  remove(uid: string): void {
    this.#tracked.delete(uid)
    this.#news.delete(uid)
    this.#repeats.delete(uid)
  }

  /** From now on another replica has the endpoints of the shard. */
  forget(shard: number): void {
    for (const uid of [...this.#tracked.keys()]) if (shardOf(uid) === shard) this.remove(uid)
  }

  #scheduleFlush(): void {
    this.#cancelFlush ??= this.#clock.after(FLUSH_MS, () => {
      this.#cancelFlush = undefined
      this.#flush()
      if (this.#news.size > 0 || this.#repeats.size > 0) this.#scheduleFlush()
    })
  }

  #flush(): void {
    const now = this.#clock.monotonic()
    let left = UPDATES_PER_FLUSH
    for (const uids of [this.#news, this.#repeats]) {
      for (const uid of uids) {
        if (left === 0) return
        const tracked = this.#tracked.get(uid)
        // Sets keep the order of their first entry: nothing behind it is due earlier than by a minute.
        if (uids === this.#repeats && tracked && now - tracked.releasedAt < SAME_RESULT_MS) continue
        this.#news.delete(uid)
        this.#repeats.delete(uid)
        if (!tracked) continue
        left -= 1
        tracked.released = tracked.latest
        tracked.releasedAt = now
        this.onDue(tracked.endpoint)
      }
    }
  }
}

function hasSameResult({ lastAttempt: a }: AttemptSummary, { lastAttempt: b }: AttemptSummary): boolean {
  return a !== undefined && a.code === b?.code && a.error === b?.error
}
