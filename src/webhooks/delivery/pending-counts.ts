import type { EndpointIdentity } from '../endpoints/directory.ts'
import { OpenBodies, type OpenBody } from '../events/open-bodies.ts'
import { isFromWebhookEvent } from '../events/plan.ts'
import { isBodyShared } from '../log/codec.ts'
import type { LoggedEvent } from '../log/store.ts'
import type { Delivery, EndpointQueue, Failing } from './endpoint-queue.ts'

/**
 * Counts of pending deliveries, kept as they change: each replica counts the deliveries of all. Then figures for metrics, which
 * are computed from the queues when they are read.
 */

type Counts = {
  pending: number
  held: number
}

export class PendingCounters {
  readonly #all: Counts = { pending: 0, held: 0 }
  readonly #organizations = new Map<string, Counts>()
  readonly #events = new Map<string, number>()
  /** Of all deliveries, also of those that are held. */
  readonly bodies = new OpenBodies()
  /** Called when a WebhookEvent gets its first delivery here. */
  onEventSeen: ((name: string) => void) | undefined
  /** Called when the last known one has ended. @param version of its segment */
  onEventDone: ((name: string, version: number) => void) | undefined

  get total(): number {
    return this.#all.pending + this.#all.held
  }

  get all(): Readonly<Counts> {
    return this.#all
  }

  ofOrganization(namespace: string): Readonly<Counts> {
    return this.#organizations.get(namespace) ?? { pending: 0, held: 0 }
  }

  /** Pending deliveries of a WebhookEvent. @param name the 26 characters of the event's id */
  ofEvent(name: string): number {
    return this.#events.get(name) ?? 0
  }

  add(delivery: Delivery): void {
    const { queue, name, ofWebhookEvent } = delivery
    this.#count(queue, 1)
    this.bodies.add(queue.endpoint.namespace, bodyOf(delivery))
    if (ofWebhookEvent) this.#addOfEvent(name)
  }

  remove(delivery: Delivery): void {
    const { queue, name, version, ofWebhookEvent } = delivery
    this.#count(queue, -1)
    this.bodies.remove(queue.endpoint.namespace, bodyOf(delivery))
    if (ofWebhookEvent) this.#removeOfEvent(name, version)
  }

  /** Counts an entry that has no delivery in this queue yet. Its endpoint is not disabled. */
  addEntry({ endpoint }: EndpointQueue, event: LoggedEvent): void {
    this.#count({ endpoint, held: false }, 1)
    this.bodies.add(endpoint.namespace, bodyOfEvent(event))
    if (isFromWebhookEvent(event)) this.#addOfEvent(event.id)
  }

  removeEntry({ endpoint }: EndpointQueue, event: LoggedEvent, version: number): void {
    this.#count({ endpoint, held: false }, -1)
    this.bodies.remove(endpoint.namespace, bodyOfEvent(event))
    if (isFromWebhookEvent(event)) this.#removeOfEvent(event.id, version)
  }

  setHeld(queue: EndpointQueue, held: boolean): void {
    if (queue.held === held) return
    this.#count(queue, -queue.size)
    queue.held = held
    this.#count(queue, queue.size)
  }

  #addOfEvent(name: string): void {
    const ofEvent = this.ofEvent(name)
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

  #count({ endpoint, held }: Pick<EndpointQueue, 'endpoint' | 'held'>, deliveries: number): void {
    const { namespace } = endpoint
    const known = this.#organizations.get(namespace)
    const ofOne = known ?? { pending: 0, held: 0 }
    if (!known) this.#organizations.set(namespace, ofOne)
    add(this.#all, held, deliveries)
    add(ofOne, held, deliveries)
    if (ofOne.pending === 0 && ofOne.held === 0) this.#organizations.delete(namespace)
  }
}

function add(counts: Counts, held: boolean, deliveries: number): void {
  if (held) counts.held += deliveries
  else counts.pending += deliveries
}

function bodyOf({ name, bodyBytes, sharesBody }: Delivery): OpenBody {
  return { id: sharesBody ? name : undefined, bytes: bodyBytes }
}

function bodyOfEvent(event: LoggedEvent): OpenBody {
  return { id: isBodyShared(event) ? event.id : undefined, bytes: event.bodyBytes }
}

/**
 * Seconds since the oldest unsent delivery was due: `davit` if its endpoint is free, `endpoint` if it waits for an endpoint that
 * hangs or is ordered. Deliveries that a disabled endpoint holds are not late.
 */
export type Lateness = { davit: number; endpoint: number }

export function lateSeconds(queues: Iterable<EndpointQueue>, now: number): Lateness {
  const since = { davit: now, endpoint: now }
  for (const queue of queues) {
    if (queue.paused || queue.size === 0) continue
    const cause = queue.isHeldUp ? 'endpoint' : 'davit'
    for (const delivery of queue.members()) since[cause] = Math.min(since[cause], dueSince(delivery) ?? now)
  }
  return { davit: (now - since.davit) / 1000, endpoint: (now - since.endpoint) / 1000 }
}

function dueSince({ stage, attempts, acceptedAt, dueAt }: Delivery): number | undefined {
  if (attempts === 0) return stage === 'queued' || stage === 'waiting' ? acceptedAt : undefined
  return stage === 'queued' ? Math.max(acceptedAt, dueAt) : undefined
}

/** `class` is the result of the last attempt; `unknown` if another process made it. */
export type FailingEndpoint = Pick<EndpointIdentity, 'namespace' | 'name'> & {
  class: Failing['class'] | 'unknown'
  seconds: number
  attempts: number
}

export function failingEndpoints(queues: Iterable<EndpointQueue>, now: number): FailingEndpoint[] {
  const found: FailingEndpoint[] = []
  for (const queue of queues) {
    if (queue.paused) continue
    const failing = queue.failing === 'unseen' ? failedBefore(queue) : queue.failing
    if (!failing) continue
    const { namespace, name } = queue.endpoint
    const seconds = Math.max(0, now - failing.since) / 1000
    found.push({ namespace, name, seconds, attempts: failing.attempts, class: failing.class })
  }
  return found.sort((a, b) => b.seconds - a.seconds)
}

type FailedBefore = Omit<Failing, 'class'> & { class: 'unknown' }

function failedBefore(queue: EndpointQueue): FailedBefore | undefined {
  let found: FailedBefore | undefined
  for (const { attempts, acceptedAt } of queue.members()) {
    if (attempts === 0) continue
    const since = Math.min(found?.since ?? acceptedAt, acceptedAt)
    found = { attempts: (found?.attempts ?? 0) + attempts, since, class: 'unknown' }
  }
  return found
}
