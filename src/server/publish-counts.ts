import type { Clock } from '../lib/clock.ts'
import type { EndpointDirectory, EndpointView } from '../webhooks/endpoints/directory.ts'
import type { EndpointBacklog } from '../webhooks/events/quota.ts'
import type { OpenDeliveryIndex } from './delivery-index/delivery-index.ts'

/**
 * How many deliveries wait, as the REST server sees it: counted in its index of the log a few times per second, plus what it has
 * appended since.
 */

const COUNTED_EVERY_MS = 250

/** Part of the delivery index. */
type Backlog = Pick<OpenDeliveryIndex, 'progress'> & {
  unfinished(): Iterable<{ namespace: string; uid: string; size: number }>
}

export class PublishCounts {
  readonly #index: Backlog
  readonly #directory: EndpointDirectory
  readonly #clock: Clock
  /** Being appended. */
  readonly #underWay = new Sums()
  #countedAt = Number.NEGATIVE_INFINITY
  #counted = new Sums()
  /** The endpoint of each organization with the most waiting deliveries. */
  #fullest = new Map<string, EndpointBacklog>()

  constructor(index: Backlog, directory: EndpointDirectory, clock: Clock) {
    this.#index = index
    this.#directory = directory
    this.#clock = clock
  }

  get all(): { pending: number } {
    this.#refresh()
    return { pending: this.#counted.total + this.#underWay.total }
  }

  /** The index does not know sizes: the controller enforces the limit on held bytes. */
  ofOrganization(namespace: string): { pending: number; heldBytes: number } {
    this.#refresh()
    return { pending: this.#counted.of(namespace) + this.#underWay.of(namespace), heldBytes: 0 }
  }

  /**
   * Counts deliveries that are about to be appended, so that concurrent publishers do not share one quota.
   * @returns the call to make when the append has ended: with true before the index learns of them, which then counts them
   */
  reserve(namespace: string, deliveries: number): (appended: boolean) => void {
    this.#refresh()
    this.#underWay.add(namespace, deliveries)
    return (appended) => {
      this.#underWay.add(namespace, -deliveries)
      if (!appended) return
      this.#refresh()
      this.#counted.add(namespace, deliveries)
    }
  }

  /** The organization's endpoint with the most waiting deliveries, if any, as of the last count: a new count for each refused
   * publish would cost the other organizations. */
  fullest(namespace: string): EndpointBacklog[] {
    this.#refresh()
    const fullest = this.#fullest.get(namespace)
    return fullest ? [fullest] : []
  }

  #refresh(): void {
    const now = this.#clock.monotonic()
    if (now - this.#countedAt < COUNTED_EVERY_MS) return
    // The number is not known now; the old one plus our appends is better than none.
    if (this.#index.progress !== undefined) return
    this.#countedAt = now
    this.#counted = new Sums()
    this.#fullest = new Map()
    const known = new Map<string, EndpointView>()
    for (const view of this.#directory.all()) known.set(view.endpoint.metadata.uid, view)
    for (const { namespace, uid, size } of this.#index.unfinished()) {
      const view = known.get(uid)
      // Deliveries held for a disabled endpoint do not count (interface S7).
      if (view?.enabled === false) continue
      this.#counted.add(namespace, size)
      // A deleted endpoint has no name.
      if (!view || size <= (this.#fullest.get(namespace)?.size ?? 0)) continue
      const { name } = view.endpoint.metadata
      this.#fullest.set(namespace, { endpoint: { namespace, name, uid }, size, bytes: 0, held: false })
    }
  }
}

/** By organization, and in all. */
class Sums {
  readonly #sums = new Map<string, number>()
  #total = 0

  get total(): number {
    return this.#total
  }

  of(namespace: string): number {
    return this.#sums.get(namespace) ?? 0
  }

  add(namespace: string, count: number): void {
    this.#total += count
    const sum = this.of(namespace) + count
    if (sum === 0) this.#sums.delete(namespace)
    else this.#sums.set(namespace, sum)
  }
}
