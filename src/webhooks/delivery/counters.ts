import type { SegmentEvent } from '../../apis/delivery-segment.ts'
import { isFromWebhookEvent } from '../events/plan.ts'
import type { Delivery, EndpointQueue, EndpointRef, Failing } from './queue.ts'

/**
 * Counts of deliveries that have not come to their end, by organization, and by event of those that are WebhookEvents: nobody asks
 * for more, and each replica counts the deliveries of all.
 */

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

/** What metrics tell of lanes. */

/** Lanes with something to send; a lane stays for as long as its endpoint does. */
export function busyQueues(lanes: Iterable<EndpointQueue>): number {
  let busy = 0
  for (const { size } of lanes) if (size > 0) busy += 1
  return busy
}

/**
 * Seconds by which what is due longest has not been sent: `davit` where its endpoint would take it, `endpoint` where it waits for
 * its endpoint, which hangs or, being ordered, has something before it. What a disabled endpoint holds is not late.
 */
export type Lateness = { davit: number; endpoint: number }

export function lateSeconds(lanes: Iterable<EndpointQueue>, now: number): Lateness {
  const since = { davit: now, endpoint: now }
  for (const lane of lanes) {
    if (lane.paused || lane.size === 0) continue
    const cause = lane.isHeldUp ? 'endpoint' : 'davit'
    for (const delivery of lane.members()) since[cause] = Math.min(since[cause], dueSince(delivery) ?? now)
  }
  return { davit: (now - since.davit) / 1000, endpoint: (now - since.endpoint) / 1000 }
}

/** Nothing but Davit itself puts a first attempt off, so that one waits from the acceptance on. */
function dueSince({ stage, attempts, acceptedAt, dueAt }: Delivery): number | undefined {
  if (attempts === 0) return stage === 'queued' || stage === 'waiting' ? acceptedAt : undefined
  return stage === 'queued' ? Math.max(acceptedAt, dueAt) : undefined
}

/** `class` is how the last attempt ended; `unknown` where another process saw it. */
export type FailingEndpoint = Pick<EndpointRef, 'namespace' | 'name'> & {
  class: Failing['class'] | 'unknown'
  seconds: number
  attempts: number
}

/** Those whose last attempt failed and that are not disabled; longest first. @param now milliseconds since 1970 */
export function failingEndpoints(lanes: Iterable<EndpointQueue>, now: number): FailingEndpoint[] {
  const found: FailingEndpoint[] = []
  for (const lane of lanes) {
    if (lane.paused) continue
    const failing = lane.failing === 'unseen' ? failedBefore(lane) : lane.failing
    if (!failing) continue
    const { namespace, name } = lane.endpoint
    const seconds = Math.max(0, now - failing.since) / 1000
    found.push({ namespace, name, seconds, attempts: failing.attempts, class: failing.class })
  }
  return found.sort((a, b) => b.seconds - a.seconds)
}

type FailedBefore = Omit<Failing, 'class'> & { class: 'unknown' }

/** What another process has left, until an attempt here tells more. */
function failedBefore(lane: EndpointQueue): FailedBefore | undefined {
  let found: FailedBefore | undefined
  for (const { attempts, acceptedAt } of lane.members()) {
    if (attempts === 0) continue
    const since = Math.min(found?.since ?? acceptedAt, acceptedAt)
    found = { attempts: (found?.attempts ?? 0) + attempts, since, class: 'unknown' }
  }
  return found
}
