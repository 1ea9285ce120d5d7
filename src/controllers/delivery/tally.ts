/** Counts of deliveries that have not come to their end, by organization and by event. */
import type { Delivery } from './delivery.ts'
import type { Lane } from './lane.ts'

/** What is counted of an organization, or of all. */
type Counts = {
  /** Deliveries that go on by themselves. */
  pending: number
  /** Deliveries of disabled endpoints, which go on when those are enabled. */
  held: number
  /** Bytes of their payloads. */
  heldBytes: number
}

export class Tally {
  readonly #all: Counts = { pending: 0, held: 0, heldBytes: 0 }
  readonly #organizations = new Map<string, Counts>()
  readonly #events = new Map<string, number>()
  /** Told when an event has its first delivery here. */
  onEventSeen: ((name: string) => void) | undefined
  /** Told when the last delivery of an event has ended that is known. @param version of the log in which it stands */
  onEventDone: ((name: string, version: number) => void) | undefined

  get total(): number {
    return this.#all.pending + this.#all.held
  }

  get all(): Readonly<Counts> {
    return this.#all
  }

  ofOrganization(namespace: string): Readonly<Counts> {
    return this.#organizations.get(namespace) ?? { pending: 0, held: 0, heldBytes: 0 }
  }

  /** @param name the 26 characters of the event's id */
  ofEvent(name: string): number {
    return this.#events.get(name) ?? 0
  }

  add(delivery: Delivery): void {
    this.#count(delivery.lane, 1, delivery.bytes)
    const ofEvent = this.ofEvent(delivery.name) + 1
    this.#events.set(delivery.name, ofEvent)
    if (ofEvent === 1) this.onEventSeen?.(delivery.name)
  }

  remove(delivery: Delivery): void {
    this.#count(delivery.lane, -1, -delivery.bytes)
    const left = this.ofEvent(delivery.name) - 1
    if (left > 0) {
      this.#events.set(delivery.name, left)
      return
    }
    this.#events.delete(delivery.name)
    this.onEventDone?.(delivery.name, delivery.version)
  }

  /** Its endpoint was disabled or enabled: what it has is held from now on, or is no more. */
  hold(lane: Lane, held: boolean): void {
    if (lane.held === held) return
    this.#count(lane, -lane.size, -lane.bytes)
    lane.held = held
    this.#count(lane, lane.size, lane.bytes)
  }

  #count({ endpoint: { namespace }, held }: Lane, deliveries: number, bytes: number): void {
    const ofOne = this.#organizations.get(namespace) ?? { pending: 0, held: 0, heldBytes: 0 }
    this.#organizations.set(namespace, ofOne)
    for (const counts of [this.#all, ofOne]) {
      if (!held) counts.pending += deliveries
      else {
        counts.held += deliveries
        counts.heldBytes += bytes
      }
    }
    if (ofOne.pending === 0 && ofOne.held === 0) this.#organizations.delete(namespace)
  }
}
