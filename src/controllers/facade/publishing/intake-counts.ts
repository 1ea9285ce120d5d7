/**
 * How many deliveries wait, as the facade sees it: from its index of the log, counted anew now and then, and what it
 * has appended itself since.
 */
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
  readonly #underWay = new Sums()
  #countedAt = Number.NEGATIVE_INFINITY
  #counted = new Sums()

  constructor(options: IntakeCountsOptions) {
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
    this.#counted = new Sums()
    const known = this.#known()
    for (const { namespace, uid, size } of this.#options.index.unfinished()) {
      // Held ones cost nothing and do not count (settled, "Events and deliveries").
      if (known.get(uid)?.enabled !== false) this.#counted.add(namespace, size)
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
