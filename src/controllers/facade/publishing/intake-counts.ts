/**
 * How many deliveries wait, as the facade sees it: from its index of the log, counted anew now and then, and what it
 * has appended itself since.
 */
import type { AcceptedEvent } from '../../../api/delivery-segment.ts'
import type { Clock } from '../../../ports/clock.ts'
import type { EndpointDirectory } from '../../endpoint/endpoint-directory.ts'
import type { Waiting } from '../../publish/intake-room.ts'

/** Deliveries of each endpoint that have not ended. */
export interface UnfinishedDeliveries {
  unfinished(): Iterable<{ namespace: string; uid: string; size: number }>
}

export type IntakeCountsOptions = {
  index: UnfinishedDeliveries
  directory: EndpointDirectory
  clock: Clock
}

const COUNTED_EVERY_MS = 250

export class IntakeCounts {
  readonly #options: IntakeCountsOptions
  #countedAt = Number.NEGATIVE_INFINITY
  #total = 0
  #organizations = new Map<string, number>()

  constructor(options: IntakeCountsOptions) {
    this.#options = options
  }

  get all(): { pending: number } {
    this.#refresh()
    return { pending: this.#total }
  }

  /** The index knows no bytes, so none are counted as held: the limit of those is the controller's. */
  ofOrganization(namespace: string): { pending: number; heldBytes: number } {
    this.#refresh()
    return { pending: this.#organizations.get(namespace) ?? 0, heldBytes: 0 }
  }

  /** Tell it before the index: what that counts is counted here with the next look. */
  appended(events: readonly AcceptedEvent[]): void {
    this.#refresh()
    for (const { event, targets } of events) this.#count(event.namespace, targets.length)
  }

  /** What waits for each endpoint; those that are gone have no name. */
  *waiting(): IterableIterator<Waiting> {
    const known = this.#known()
    for (const { namespace, uid, size } of this.#options.index.unfinished()) {
      const { name = '', enabled = true } = known.get(uid) ?? {}
      if (name !== '') yield { endpoint: { namespace, name, uid }, size, bytes: 0, held: !enabled }
    }
  }

  #refresh(): void {
    const now = this.#options.clock.monotonic()
    if (now - this.#countedAt < COUNTED_EVERY_MS) return
    this.#countedAt = now
    this.#total = 0
    this.#organizations = new Map()
    const known = this.#known()
    for (const { namespace, uid, size } of this.#options.index.unfinished()) {
      // Held ones cost nothing and do not count (settled, "Events and deliveries").
      if (known.get(uid)?.enabled !== false) this.#count(namespace, size)
    }
  }

  #count(namespace: string, deliveries: number): void {
    this.#total += deliveries
    this.#organizations.set(namespace, (this.#organizations.get(namespace) ?? 0) + deliveries)
  }

  #known(): Map<string, { name: string; enabled: boolean }> {
    const known = new Map<string, { name: string; enabled: boolean }>()
    for (const { endpoint, enabled } of this.#options.directory.all()) {
      known.set(endpoint.metadata.uid, { name: endpoint.metadata.name, enabled })
    }
    return known
  }
}
