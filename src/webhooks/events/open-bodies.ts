import { KeyedSums } from '../../lib/fair-queue.ts'

/**
 * The bytes of bodies whose deliveries have not ended, by organization: what they may take in the store. A large body is there once for all
 * its deliveries and counts once, until the last of them has ended. A small one is copied into the object of each delivery that fails, so it
 * counts for each.
 */

/** @property id of the event if its body may have several deliveries; absent: it has this one */
export type OpenBody = { id?: string | undefined; bytes: number }

export class OpenBodies {
  readonly #bytes = new KeyedSums()
  /** Open deliveries of each body with several. */
  readonly #shared = new Map<string, number>()

  get total(): number {
    return this.#bytes.total
  }

  of(organization: string): number {
    return this.#bytes.of(organization)
  }

  /** A delivery is open. */
  add(organization: string, { id, bytes }: OpenBody): void {
    if (id !== undefined) {
      const deliveries = this.#shared.get(id) ?? 0
      this.#shared.set(id, deliveries + 1)
      if (deliveries > 0) return
    }
    this.#bytes.add(organization, bytes)
  }

  /** A delivery that was added, with the same body, is no longer open. */
  remove(organization: string, { id, bytes }: OpenBody): void {
    if (id !== undefined) {
      const deliveries = (this.#shared.get(id) ?? 1) - 1
      if (deliveries > 0) {
        this.#shared.set(id, deliveries)
        return
      }
      this.#shared.delete(id)
    }
    this.#bytes.add(organization, -bytes)
  }
}
