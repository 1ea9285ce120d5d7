/** Counts of deliveries that have not come to their end, by organization and by event. */
import type { Delivery } from './delivery.ts'

export class Tally {
  #total = 0
  readonly #organizations = new Map<string, number>()
  readonly #events = new Map<string, number>()
  /** Told when the last delivery of an event has ended. */
  onEventDone: ((name: string) => void) | undefined

  get total(): number {
    return this.#total
  }

  ofOrganization(namespace: string): number {
    return this.#organizations.get(namespace) ?? 0
  }

  /** @param name the 26 characters of the event's id */
  ofEvent(name: string): number {
    return this.#events.get(name) ?? 0
  }

  add(delivery: Delivery): void {
    this.#total += 1
    change(this.#organizations, delivery.lane.endpoint.namespace, 1)
    change(this.#events, delivery.name, 1)
  }

  remove(delivery: Delivery): void {
    this.#total -= 1
    change(this.#organizations, delivery.lane.endpoint.namespace, -1)
    if (change(this.#events, delivery.name, -1) === 0) this.onEventDone?.(delivery.name)
  }
}

function change(counts: Map<string, number>, key: string, by: number): number {
  const count = (counts.get(key) ?? 0) + by
  if (count === 0) counts.delete(key)
  else counts.set(key, count)
  return count
}
