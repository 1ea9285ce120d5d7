/**
 * How many deliveries wait, as the facade sees it: from its index of the log, counted anew now and then, and what it
 * has appended itself since.
 */
import type { Clock } from '../lib/clock.ts'
import type { EndpointDirectory } from '../webhooks/endpoints/directory.ts'
import type { EndpointBacklog } from '../webhooks/events/quota.ts'

/** Deliveries of each endpoint that have not ended. */
export interface UnfinishedDeliveries {
  /** None while they are being read. */
  unfinished(): Iterable<{ namespace: string; uid: string; size: number }>
  /** What is still to be read of the log, in words; undefined when all was. */
  readonly progress: string | undefined
}

export type PublishCountsOptions = {
  index: UnfinishedDeliveries
  directory: EndpointDirectory
  clock: Clock
}

const COUNTED_EVERY_MS = 250

export class PublishCounts {
  readonly #options: PublishCountsOptions
  readonly #underWay = new Sums()
  #countedAt = Number.NEGATIVE_INFINITY
  #counted = new Sums()
  /** Of each organization the endpoint for which most waits. */
  #fullest = new Map<string, EndpointBacklog>()

  constructor(options: PublishCountsOptions) {
    this.#options = options
  }

  get all(): { pending: number } {
    this.#refresh()
    return { pending: this.#counted.total + this.#underWay.total }
  }

  /** The index knows no bytes, so none are counted as held: the limit of those is the controller's. */
  ofOrganization(namespace: string): { pending: number; heldBytes: number } {
    this.#refresh()
    return { pending: this.#counted.of(namespace) + this.#underWay.of(namespace), heldBytes: 0 }
  }

  /**
   * Deliveries that are about to be appended, so that those who ask at a time do not all get the same room.
   * @returns the call to make when the append has ended: with true before the index is told, which counts them then
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

  /**
   * The organization's endpoint for which most waits, if there is one, as of the last count: whoever is refused at each
   * publish is told of it, and must not cost the others a count for each.
   */
  fullest(namespace: string): EndpointBacklog[] {
    this.#refresh()
    const fullest = this.#fullest.get(namespace)
    return fullest ? [fullest] : []
  }

  #refresh(): void {
    const { index, clock } = this.#options
    const now = clock.monotonic()
    if (now - this.#countedAt < COUNTED_EVERY_MS) return
    // What waits is not known now: what did, and what was appended since, is nearer to it than nothing.
    if (index.progress !== undefined) return
    this.#countedAt = now
    this.#counted = new Sums()
    this.#fullest = new Map()
    const known = this.#known()
    for (const { namespace, uid, size } of index.unfinished()) {
      const { name = '', enabled = true } = known.get(uid) ?? {}
      // Held ones cost nothing and do not count (settled, "Events and deliveries").
      if (!enabled) continue
      this.#counted.add(namespace, size)
      // Those that are gone have no name.
      if (name === '' || size <= (this.#fullest.get(namespace)?.size ?? 0)) continue
      this.#fullest.set(namespace, { endpoint: { namespace, name, uid }, size, bytes: 0, held: false })
    }
  }

  #known(): Map<string, { name: string; enabled: boolean }> {
    const known = new Map<string, { name: string; enabled: boolean }>()
    for (const { endpoint, enabled } of this.#options.directory.all()) {
      known.set(endpoint.metadata.uid, { name: endpoint.metadata.name, enabled })
    }
    return known
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
