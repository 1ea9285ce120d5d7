import type { Position } from '../../api/position.ts'
import type { Delivery } from './delivery.ts'

/** More than a segment can hold, and few enough for versions of eleven digits. */
const INDEXES = 65_536

/** Pending deliveries that an object shows, by their places in the log. There may be hundreds of thousands. */
export class ShownDeliveries {
  readonly #byPlace = new Map<number, Delivery>()

  at(position: Position): Delivery | undefined {
    // A place is a number beyond 32 bits, for which Map has to make an object first.
    return this.#byPlace.size === 0 ? undefined : this.#byPlace.get(placeOf(position))
  }

  has(delivery: Delivery): boolean {
    return this.at(delivery) === delivery
  }

  /** Those first that were added first. */
  values(): MapIterator<Delivery> {
    return this.#byPlace.values()
  }

  add(delivery: Delivery): void {
    this.#byPlace.set(placeOf(delivery), delivery)
  }

  delete(delivery: Delivery): void {
    if (this.has(delivery)) this.#byPlace.delete(placeOf(delivery))
  }
}

/** One number for a place, as long as versions have no more than eleven digits. */
export function placeOf({ version, index }: Position): number {
  return version * INDEXES + index
}
