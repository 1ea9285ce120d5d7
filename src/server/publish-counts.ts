import { KeyedSums } from '../lib/fair-queue.ts'
import type { Clock } from '../lib/time.ts'
import type { EndpointDirectory, EndpointView } from '../webhooks/endpoints/directory.ts'
import type { EndpointBacklog } from '../webhooks/events/quota.ts'
import type { OpenDeliveryIndex } from './delivery-index/delivery-index.ts'

/**
 * How many deliveries wait, as the REST server sees it: counted in its index of the log a few times per second, plus what it has
 * appended since.
 */

const COUNTED_EVERY_MS = 250

/** Part of the delivery index. */
type Backlog = Pick<OpenDeliveryIndex, 'progress' | 'openBodies'> & {
  unfinished(): Iterable<{ namespace: string; uid: string; size: number; bytes: number }>
}

type Fullest = { bySize: EndpointBacklog | undefined; byBytes: EndpointBacklog | undefined }

export class PublishCounts {
  readonly #index: Backlog
  readonly #directory: EndpointDirectory
  readonly #clock: Clock
  /** Being appended, by organization. */
  readonly #underWay = new KeyedSums()
  readonly #bytesUnderWay = new KeyedSums()
  #countedAt = Number.NEGATIVE_INFINITY
  /** By organization. */
  #counted = new KeyedSums()
  /** The endpoints of each organization with the most waiting deliveries, and with the most bytes. */
  #fullest = new Map<string, Fullest>()

  constructor(index: Backlog, directory: EndpointDirectory, clock: Clock) {
    this.#index = index
    this.#directory = directory
    this.#clock = clock
  }

  get all(): { pending: number } {
    this.#refresh()
    return { pending: this.#counted.total + this.#underWay.total }
  }

  ofOrganization(namespace: string): { pending: number } {
    this.#refresh()
    return { pending: this.#counted.of(namespace) + this.#underWay.of(namespace) }
  }

  /** Bytes of bodies whose deliveries have not ended. */
  get bodies(): { total: number; of: (organization: string) => number } {
    const [open, underWay] = [this.#index.openBodies(), this.#bytesUnderWay]
    return {
      total: open.total + underWay.total,
      of: (organization) => open.of(organization) + underWay.of(organization),
    }
  }

  /**
   * Counts deliveries that are about to be appended, so that concurrent publishers do not share one quota.
   * @returns the call to make when the append has ended: with true before the index learns of them, which then counts them
   */
  reserve(namespace: string, deliveries: number, bytes: number): (appended: boolean) => void {
    this.#refresh()
    this.#underWay.add(namespace, deliveries)
    this.#bytesUnderWay.add(namespace, bytes)
    return (appended) => {
      this.#underWay.add(namespace, -deliveries)
      this.#bytesUnderWay.add(namespace, -bytes)
      if (!appended) return
      this.#refresh()
      this.#counted.add(namespace, deliveries)
    }
  }

  /**
   * The organization's endpoints with the most waiting deliveries and the most bytes, if any, as of the last count: a new count for each
   * refused publish would cost the other organizations.
   */
  fullest(namespace: string): EndpointBacklog[] {
    this.#refresh()
    const { bySize, byBytes } = this.#fullest.get(namespace) ?? {}
    return [bySize, byBytes].filter((endpoint) => endpoint !== undefined)
  }

  #refresh(): void {
    const now = this.#clock.monotonic()
    if (now - this.#countedAt < COUNTED_EVERY_MS) return
    // The number is not known now; the old one plus our appends is better than none.
    if (this.#index.progress !== undefined) return
    this.#countedAt = now
    this.#counted = new KeyedSums()
    this.#fullest = new Map()
    const known = new Map<string, EndpointView>()
    for (const view of this.#directory.all()) known.set(view.endpoint.metadata.uid, view)
    for (const { namespace, uid, size, bytes } of this.#index.unfinished()) {
      const view = known.get(uid)
      const held = view?.enabled === false
      // Deliveries held for a disabled endpoint do not count (interface S7), but what they keep in the store does.
      if (!held) this.#counted.add(namespace, size)
      // A deleted endpoint has no name.
      if (!view) continue
      const { name } = view.endpoint.metadata
      this.#compare(namespace, { endpoint: { namespace, name, uid }, size, bytes, held })
    }
  }

  #compare(namespace: string, one: EndpointBacklog): void {
    const { bySize, byBytes } = this.#fullest.get(namespace) ?? {}
    this.#fullest.set(namespace, {
      bySize: !one.held && one.size > (bySize?.size ?? 0) ? one : bySize,
      byBytes: one.bytes > (byBytes?.bytes ?? 0) ? one : byBytes,
    })
  }
}
