/**
 * Counts of deliveries that have not come to their end, by organization, and by event of those that are WebhookEvents: nobody asks
 * for more, and each replica counts the deliveries of all.
 */
import type { SegmentEvent } from '../../apis/delivery-segment.ts'
import { isFromWebhookEvent } from '../events/plan.ts'
import type { Delivery } from './delivery.ts'
import type { EndpointQueue } from './queue.ts'

/** What is counted of an organization, or of all. */
type Counts = {
  /** Deliveries that go on by themselves. */
  pending: number
  /** Deliveries of disabled endpoints, which go on when those are enabled. */
  held: number
  /** Bytes of their payloads. */
  heldBytes: number
}

export class PendingCounters {
  readonly #all: Counts = { pending: 0, held: 0, heldBytes: 0 }
  readonly #organizations = new Map<string, Counts>()
  readonly #events = new Map<string, number>()
  /** Told when a WebhookEvent has its first delivery here. */
  onEventSeen: ((name: string) => void) | undefined
  /** Told when the last delivery of a WebhookEvent has ended that is known. @param version of the log in which it stands */
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

  /** Of a WebhookEvent. @param name the 26 characters of the event's id */
  ofEvent(name: string): number {
    return this.#events.get(name) ?? 0
  }

  add({ queue, name, bytes, ofWebhookEvent }: Delivery): void {
    this.#count(queue, 1, bytes)
    // A name that came with an entry is cut out of the text of its segment, which must not stay.
    if (ofWebhookEvent) this.#addOfEvent(name, 'replaces')
  }

  remove({ queue, name, version, bytes, ofWebhookEvent }: Delivery): void {
    this.#count(queue, -1, -bytes)
    if (ofWebhookEvent) this.#removeOfEvent(name, version)
  }

  /** One that is to have a delivery in this lane, whose endpoint is not disabled. */
  addEntry({ endpoint }: EndpointQueue, event: SegmentEvent): void {
    this.#count({ endpoint, held: false }, 1, 0)
    if (isFromWebhookEvent(event)) this.#addOfEvent(event.id)
  }

  /** @param version of the log in which it stands */
  removeEntry({ endpoint }: EndpointQueue, event: SegmentEvent, version: number): void {
    this.#count({ endpoint, held: false }, -1, 0)
    if (isFromWebhookEvent(event)) this.#removeOfEvent(event.id, version)
  }

  /** Its endpoint was disabled or enabled: what it has is held from now on, or is no more. */
  setHeld(lane: EndpointQueue, held: boolean): void {
    if (lane.held === held) return
    this.#count(lane, -lane.size, -lane.bytes)
    lane.held = held
    this.#count(lane, lane.size, lane.bytes)
  }

  #addOfEvent(name: string, how?: 'replaces'): void {
    const ofEvent = this.ofEvent(name)
    if (how === 'replaces' && ofEvent > 0) this.#events.delete(name)
    this.#events.set(name, ofEvent + 1)
    if (ofEvent === 0) this.onEventSeen?.(name)
  }

  #removeOfEvent(name: string, version: number): void {
    const left = this.ofEvent(name) - 1
    if (left > 0) {
      this.#events.set(name, left)
      return
    }
    this.#events.delete(name)
    this.onEventDone?.(name, version)
  }

  #count(
    { endpoint, held }: Pick<EndpointQueue, 'endpoint' | 'held'>,
    deliveries: number,
    bytes: number,
  ): void {
    const { namespace } = endpoint
    const known = this.#organizations.get(namespace)
    const ofOne = known ?? { pending: 0, held: 0, heldBytes: 0 }
    if (!known) this.#organizations.set(namespace, ofOne)
    add(this.#all, held, deliveries, bytes)
    add(ofOne, held, deliveries, bytes)
    if (ofOne.pending === 0 && ofOne.held === 0) this.#organizations.delete(namespace)
  }
}

function add(counts: Counts, held: boolean, deliveries: number, bytes: number): void {
  if (!held) counts.pending += deliveries
  else {
    counts.held += deliveries
    counts.heldBytes += bytes
  }
}
