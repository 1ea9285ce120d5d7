import type { Position } from '../../apis/position.ts'
import type { LogDelivery } from '../log/store.ts'
import type { Delivery } from './delivery.ts'

/** More than a segment can hold, and few enough for versions of eleven digits. */
const INDEXES = 65_536

/** Pending deliveries that an object shows, by their places in the log. There may be hundreds of thousands. */
export class ObjectBackedDeliveries {
  readonly #byPlace = new Map<number, Delivery>()

  at(position: Position): Delivery | undefined {
    // A place is a number beyond 32 bits, for which Map has to make an object first.
    return this.#byPlace.size === 0 ? undefined : this.#byPlace.get(offsetKey(position))
  }

  /** That of an entry of the log: what an object says of its place is its word alone, and one of another endpoint is not it. */
  findEntry(
    version: number,
    { index, endpoint }: Pick<LogDelivery, 'index' | 'endpoint'>,
  ): Delivery | undefined {
    const shown = this.at({ version, index })
    return shown?.queue.endpoint.uid === endpoint.uid ? shown : undefined
  }

  has(delivery: Delivery): boolean {
    return this.at(delivery) === delivery
  }

  /** Those first that were added first. */
  values(): MapIterator<Delivery> {
    return this.#byPlace.values()
  }

  /** By what the log says, which knows its own places. */
  add(delivery: Delivery): void {
    this.#byPlace.set(offsetKey(delivery), delivery)
  }

  /** By what an object says: of two that are not the same, and say to be at one place, the first stays. */
  addFound(delivery: Delivery): void {
    const held = this.at(delivery)
    if (!held || isSameDelivery(held, delivery)) this.add(delivery)
  }

  delete(delivery: Delivery): void {
    if (this.has(delivery)) this.#byPlace.delete(offsetKey(delivery))
  }
}

/** An event at an endpoint. */
export function isSameDelivery(one: Delivery, other: Delivery): boolean {
  return one.name === other.name && one.queue.endpoint.uid === other.queue.endpoint.uid
}

/** One number for a place, as long as versions have no more than eleven digits. */
export function offsetKey({ version, index }: Position): number {
  return version * INDEXES + index
}
