import { KeyedSums, remainingShare, type Usage } from '../../lib/fair-queue.ts'
import type { Clock } from '../../lib/time.ts'

/**
 * Whether an organization's events may be accepted now. Pending deliveries and written bytes are limited, since they are in the store of
 * the whole cluster. Over a limit events wait, and none is lost.
 */

const MINUTE_MS = 60_000

/** Bytes by key over the last minutes, in buckets of a minute: memory does not grow with traffic. */
export class ByteWindow {
  readonly #clock: Clock
  readonly #minutes: number
  /** By minute of the monotonic clock, oldest first. */
  readonly #buckets = new Map<number, Map<string, number>>()
  readonly #sums = new KeyedSums()

  constructor(clock: Clock, minutes: number) {
    this.#clock = clock
    this.#minutes = minutes
  }

  add(key: string, bytes: number): void {
    const minute = this.#forget()
    const bucket = this.#buckets.get(minute) ?? new Map<string, number>()
    this.#buckets.set(minute, bucket)
    bucket.set(key, (bucket.get(key) ?? 0) + bytes)
    this.#sums.add(key, bytes)
  }

  bytesOf(key: string): number {
    this.#forget()
    return this.#sums.of(key)
  }

  get total(): number {
    this.#forget()
    return this.#sums.total
  }

  #forget(): number {
    const minute = Math.floor(this.#clock.monotonic() / MINUTE_MS)
    for (const [old, bucket] of this.#buckets) {
      if (old > minute - this.#minutes) break
      this.#buckets.delete(old)
      for (const [key, bytes] of bucket) this.#sums.add(key, -bytes)
    }
    return minute
  }
}

export type IntakeLimits = {
  /** Deliveries that have not ended (interface S14). */
  pending: Usage
  /** Bytes of bodies whose deliveries have not ended, also of those that wait for a disabled endpoint. */
  openBytes: Usage
  writtenBytes: Usage
}

/**
 * `message` says what helps, and `used` is what the organization uses of the limit: deliveries, or bytes. `fullest` is the endpoint
 * with the largest backlog.
 */
export type QuotaExceeded = {
  reason: 'TooManyPending' | 'TooMuchOpen' | 'TooMuchWritten'
  message: string
  used: number
  fullest?: EndpointBacklog
}

/** The open deliveries of one endpoint, and the bytes of their bodies. */
export type EndpointBacklog = {
  readonly endpoint: { readonly namespace: string; readonly name: string; readonly uid: string }
  readonly size: number
  readonly bytes: number
  readonly held: boolean
}

type PublishQuotaOptions = {
  counters: {
    readonly all: { readonly pending: number }
    ofOrganization(namespace: string): { readonly pending: number }
    readonly bodies: { readonly total: number; of(organization: string): number }
  }
  /** Deliveries that were appended and are not counted yet. */
  unconfirmed: { total: number; ofOrganization(namespace: string): number }
  written: ByteWindow
  /** The organization's endpoints, at least those with the largest backlogs; may include others. */
  queues: (namespace: string) => Iterable<EndpointBacklog>
  limits: IntakeLimits
}

export class PublishQuota {
  readonly #options: PublishQuotaOptions

  constructor(options: PublishQuotaOptions) {
    this.#options = options
  }

  /** How many more deliveries the organization may have, or why none. */
  remaining(namespace: string): number | QuotaExceeded {
    const { counters, unconfirmed, written, limits } = this.#options
    const { pending } = counters.ofOrganization(namespace)
    const { bodies } = counters
    const open = { organization: bodies.of(namespace), all: bodies.total }
    if (remainingShare(open, limits.openBytes) === 0) return this.#tooMuchOpen(namespace, open.organization)
    const bytes = { organization: written.bytesOf(namespace), all: written.total }
    if (remainingShare(bytes, limits.writtenBytes) === 0) {
      return {
        reason: 'TooMuchWritten',
        used: bytes.organization,
        message: `Publishing is paused and new events are waiting: the limit on the data written in 10 minutes has been reached (this organization: ${bytes.organization} bytes; all organizations: ${bytes.all} bytes).`,
      }
    }
    const remaining = remainingShare(
      {
        organization: pending + unconfirmed.ofOrganization(namespace),
        all: counters.all.pending + unconfirmed.total,
      },
      limits.pending,
    )
    return remaining > 0 ? remaining : this.#tooManyPending(namespace, pending)
  }

  #tooMuchOpen(namespace: string, bytes: number): QuotaExceeded {
    const fullest = this.#fullest(namespace, (queue) => queue.bytes)
    const most = fullest ? `, most of them for the endpoint ${fullest.endpoint.name}` : ''
    const fix = fullest
      ? 'Fix its receiver or delete the endpoint. If the endpoint is disabled, enabling it also helps.'
      : 'Fix the receivers that do not accept the deliveries, or delete their endpoints. If an endpoint is disabled, enabling it also helps.'
    const message = `Publishing is paused and new events are waiting: this organization's unfinished deliveries take up ${bytes} bytes${most}. ${fix}`
    return { reason: 'TooMuchOpen', message, used: bytes, ...(fullest ? { fullest } : {}) }
  }

  #tooManyPending(namespace: string, pending: number): QuotaExceeded {
    const fullest = this.#fullest(namespace, (queue) => (queue.held ? 0 : queue.size))
    const most = fullest ? `, ${fullest.size} of them for the endpoint ${fullest.endpoint.name}` : ''
    const message = `Publishing is paused and new events are waiting: this organization has ${pending} unfinished deliveries${most}. Fix the receiver that does not accept the deliveries, or disable or delete its endpoint.`
    return { reason: 'TooManyPending', message, used: pending, ...(fullest ? { fullest } : {}) }
  }

  #fullest(namespace: string, weigh: (queue: EndpointBacklog) => number): EndpointBacklog | undefined {
    let fullest: EndpointBacklog | undefined
    let most = 0
    for (const queue of this.#options.queues(namespace)) {
      if (queue.endpoint.namespace !== namespace || weigh(queue) <= most) continue
      fullest = queue
      most = weigh(queue)
    }
    return fullest
  }
}
