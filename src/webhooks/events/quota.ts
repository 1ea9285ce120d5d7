import type { Clock } from '../../lib/clock.ts'

/** Bytes by key over the last minutes, to the minute; the size of what is kept does not depend on how much comes. */

const MINUTE_MS = 60_000

export class ByteWindow {
  readonly #clock: Clock
  readonly #minutes: number
  /** By minute of the monotonic clock, the oldest first. */
  readonly #buckets = new Map<number, Map<string, number>>()
  readonly #sums = new Map<string, number>()
  #total = 0

  constructor(clock: Clock, minutes: number) {
    this.#clock = clock
    this.#minutes = minutes
  }

  add(key: string, bytes: number): void {
    const minute = this.#forget()
    const bucket = this.#buckets.get(minute) ?? new Map<string, number>()
    this.#buckets.set(minute, bucket)
    bucket.set(key, (bucket.get(key) ?? 0) + bytes)
    this.#sums.set(key, (this.#sums.get(key) ?? 0) + bytes)
    this.#total += bytes
  }

  bytesOf(key: string): number {
    this.#forget()
    return this.#sums.get(key) ?? 0
  }

  get total(): number {
    this.#forget()
    return this.#total
  }

  /** @returns the minute that it is */
  #forget(): number {
    const minute = Math.floor(this.#clock.monotonic() / MINUTE_MS)
    for (const [old, bucket] of this.#buckets) {
      if (old > minute - this.#minutes) break
      this.#buckets.delete(old)
      for (const [key, bytes] of bucket) {
        this.#total -= bytes
        const left = (this.#sums.get(key) ?? 0) - bytes
        if (left > 0) this.#sums.set(key, left)
        else this.#sums.delete(key)
      }
    }
    return minute
  }
}

/** How many deliveries may wait at once before new events do (settled, "Events and deliveries"). */

/** Deliveries, or the most of them. */
export type Pending = { organization: number; all: number }

/** Kept for organizations that hold little, so that full ones do not stop the rest. */
const RESERVE = 0.1
/** Of the reserve, at least so many organizations get a share. */
const SHARES = 20

/** @returns how many more deliveries an organization may have; 0 when its events have to wait */
export function remainingQuota(pending: Pending, limits: Pending): number {
  const reserve = Math.floor(limits.all * RESERVE)
  const ofItsOwn = limits.organization - pending.organization
  const unreserved = limits.all - reserve - pending.all
  const share = Math.min(Math.ceil(reserve / SHARES) - pending.organization, limits.all - pending.all)
  return Math.max(0, Math.min(ofItsOwn, Math.max(unreserved, share)))
}

/**
 * Whether an organization's events may be accepted now. What waits and what is written is limited, since it lives
 * in the store of the whole cluster: beyond the limits events wait, and none is lost.
 */

export type IntakeLimits = {
  pending: Pending
  /** Bytes of payloads that disabled endpoints of an organization hold. */
  heldBytes: number
  /** Bytes written in ten minutes. */
  writtenBytes: Pending
}

/** `message` says what would help; `fullest` is the endpoint that holds most of what is in the way. */
export type QuotaExceeded = {
  reason: 'TooManyPending' | 'TooMuchHeld' | 'TooMuchWritten'
  message: string
  fullest?: { namespace: string; name: string; uid: string }
}

/** What waits for one endpoint: deliveries that have not ended, and the bytes of their payloads. */
export type EndpointBacklog = {
  readonly endpoint: { readonly namespace: string; readonly name: string; readonly uid: string }
  readonly size: number
  readonly bytes: number
  /** The endpoint is disabled. */
  readonly held: boolean
}

export type PublishQuotaOptions = {
  counters: {
    readonly all: { readonly pending: number }
    ofOrganization(namespace: string): { readonly pending: number; readonly heldBytes: number }
  }
  /** Deliveries that were appended and that the tally does not count yet. */
  unconfirmed: { total: number; ofOrganization(namespace: string): number }
  written: ByteWindow
  /** Of the organization's endpoints at least the fullest ones; others may be among them. */
  queues: (namespace: string) => Iterable<EndpointBacklog>
  limits: IntakeLimits
}

export class PublishQuota {
  readonly #options: PublishQuotaOptions

  constructor(options: PublishQuotaOptions) {
    this.#options = options
  }

  /** @returns how many deliveries the organization may have more, or why none */
  remaining(namespace: string): number | QuotaExceeded {
    const { counters, unconfirmed, written, limits } = this.#options
    const { pending, heldBytes } = counters.ofOrganization(namespace)
    if (heldBytes > limits.heldBytes) return this.#tooMuchHeld(namespace)
    if (
      written.bytesOf(namespace) > limits.writtenBytes.organization ||
      written.total > limits.writtenBytes.all
    ) {
      return {
        reason: 'TooMuchWritten',
        message: `New events wait: as many bytes as may be were written in the last ten minutes (${written.bytesOf(namespace)} of this organization, ${written.total} in all).`,
      }
    }
    const room = remainingQuota(
      {
        organization: pending + unconfirmed.ofOrganization(namespace),
        all: counters.all.pending + unconfirmed.total,
      },
      limits.pending,
    )
    return room > 0 ? room : this.#tooManyPending(namespace, pending)
  }

  #tooMuchHeld(namespace: string): QuotaExceeded {
    const fullest = this.#fullest(namespace, (lane) => (lane.held ? lane.bytes : 0))
    const message =
      `New events wait: what disabled endpoints hold has reached ${this.#options.limits.heldBytes} bytes, most of it ` +
      `${nameOf(fullest)}. Enable or delete that endpoint.`
    return { reason: 'TooMuchHeld', message, ...(fullest ? { fullest: fullest.endpoint } : {}) }
  }

  #tooManyPending(namespace: string, pending: number): QuotaExceeded {
    const fullest = this.#fullest(namespace, (lane) => (lane.held ? 0 : lane.size))
    const most = fullest ? `, ${fullest.size} of them ${nameOf(fullest)}` : ''
    const message = `New events wait: ${pending} deliveries of this organization have not ended${most}. Mend, disable or delete what does not take them.`
    return { reason: 'TooManyPending', message, ...(fullest ? { fullest: fullest.endpoint } : {}) }
  }

  #fullest(namespace: string, weigh: (lane: EndpointBacklog) => number): EndpointBacklog | undefined {
    let fullest: EndpointBacklog | undefined
    let most = 0
    for (const lane of this.#options.queues(namespace)) {
      if (lane.endpoint.namespace !== namespace || weigh(lane) <= most) continue
      fullest = lane
      most = weigh(lane)
    }
    return fullest
  }
}

function nameOf(lane: EndpointBacklog | undefined): string {
  return lane ? `of the endpoint ${lane.endpoint.name}` : 'of endpoints that are gone'
}
