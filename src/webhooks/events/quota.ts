import { remainingShare, type Usage } from '../../lib/fair-queue.ts'
import type { ByteWindow } from '../log/written-bytes.ts'

/**
 * Whether an organization's events may be accepted now. Pending deliveries and written bytes are limited, since they are in the store of
 * the whole cluster. Over a limit events wait, and none is lost.
 */

export type IntakeLimits = {
  /** Deliveries that have not ended (interface S14). */
  pending: Usage
  /** Bytes of bodies whose deliveries have not ended, also of those that wait for a disabled endpoint. */
  openBytes: Usage
  /** Bytes that were added to the store in the last ten minutes. */
  writtenBytes: Usage
}

/**
 * `message` says what helps, and `used` is what the organization uses of the limit: deliveries, or bytes. `fullest` is the endpoint
 * with the largest backlog.
 */
export type QuotaExceeded = {
  reason: 'TooManyPending' | 'TooManyUnfinishedBytes' | 'TooManyWrittenBytes'
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
  written: Pick<ByteWindow, 'bytesOf' | 'total' | 'fairTotal'>
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
    if (remainingShare(open, limits.openBytes) === 0)
      return this.#tooManyUnfinishedBytes(namespace, open.organization)
    const bytes = { organization: written.bytesOf(namespace), all: written.fairTotal }
    if (remainingShare(bytes, limits.writtenBytes) === 0) {
      return {
        reason: 'TooManyWrittenBytes',
        used: bytes.organization,
        message: `Publishing is paused and new events are waiting. The limit on data written per 10-minute period has been reached (written by this organization: ${bytes.organization} bytes; by all organizations: ${written.total} bytes).`,
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

  #tooManyUnfinishedBytes(namespace: string, bytes: number): QuotaExceeded {
    const fullest = this.#fullest(namespace, (queue) => queue.bytes)
    const most = fullest ? `; the endpoint ${fullest.endpoint.name} has the largest share` : ''
    const fix = fullest
      ? 'Fix its receiver, and enable the endpoint if it is disabled. Or delete the endpoint.'
      : 'Fix the receivers that are not accepting deliveries, and enable their endpoints if they are disabled. Or delete the endpoints.'
    const message = `Publishing is paused and new events are waiting: this organization's unfinished deliveries take up ${bytes} bytes${most}. ${fix}`
    return { reason: 'TooManyUnfinishedBytes', message, used: bytes, ...(fullest ? { fullest } : {}) }
  }

  #tooManyPending(namespace: string, pending: number): QuotaExceeded {
    const fullest = this.#fullest(namespace, (queue) => (queue.held ? 0 : queue.size))
    const most = fullest ? `, ${fullest.size} of them for the endpoint ${fullest.endpoint.name}` : ''
    const fix = fullest
      ? 'Fix its receiver, or disable or delete the endpoint.'
      : 'Fix any receivers that are not accepting deliveries, or disable or delete their endpoints.'
    const message = `Publishing is paused and new events are waiting: this organization has ${pending} unfinished deliveries${most}. ${fix}`
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
