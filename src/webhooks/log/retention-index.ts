import type { Position } from '../../apis/delivery-segment.ts'
import { shardOf } from '../../ha/assignment.ts'
import type { EndpointIdentity } from '../endpoints/directory.ts'
import { INLINE_PAYLOAD_BYTES } from './codec.ts'
import {
  type FinishedCount,
  type Holders,
  hasExpired,
  nextToDelete,
  type RetentionLimits,
} from './retention-plan.ts'

/**
 * What retention knows of finished deliveries that have an object, of which there may be 200,000 at some 150 bytes each: a queue by age,
 * an index by endpoint, and which objects refer to a body in a segment of the log.
 */

export type ExpiringItem = { readonly completedAt: number; isRemoved: boolean }

/** Items arrive nearly in order: the index is searched this far from the end; beyond that everything is sorted later. */
const NEAR = 64
/** Fewer removed items than this are not worth a compaction. */
const SLACK = 64

/**
 * A queue by completion time, oldest first. Adding at the end and removing at the front are O(1), amortized; items that are removed
 * elsewhere stay as dead entries until a compaction pays.
 */
export class ExpiryQueue<T extends ExpiringItem> {
  #items: T[] = []
  #start = 0
  #size = 0
  #sorted = true

  get size(): number {
    return this.#size
  }

  add(item: T): void {
    this.#size += 1
    const index = this.#sorted ? this.#indexFor(item) : undefined
    if (index === undefined) this.#sorted = false
    if (index === undefined || index === this.#items.length) this.#items.push(item)
    else this.#items.splice(index, 0, item)
  }

  first(): T | undefined {
    if (!this.#sorted) this.#sort()
    while (this.#items[this.#start]?.isRemoved) this.#start += 1
    return this.#items[this.#start]
  }

  /** The first item that `isWanted`, among as many as a few that are not may stand before. */
  firstWhere(isWanted: (item: T) => boolean): T | undefined {
    const first = this.first()
    if (!first || isWanted(first)) return first
    let seen = 0
    for (const item of this.values()) {
      if (isWanted(item)) return item
      seen += 1
      if (seen > NEAR) return undefined
    }
    return undefined
  }

  /** Call after setting `isRemoved` of an item. */
  noteRemoved(): void {
    this.#size -= 1
    if (this.#items.length > 2 * this.#size + SLACK) this.#compact()
  }

  *values(): IterableIterator<T> {
    for (let index = this.#start; index < this.#items.length; index += 1) {
      const item = this.#items[index]
      if (item && !item.isRemoved) yield item
    }
  }

  #indexFor(item: T): number | undefined {
    let index = this.#items.length
    const nearest = Math.max(this.#start, index - NEAR)
    while (index > this.#start) {
      const before = this.#items[index - 1]
      if (!before || before.completedAt <= item.completedAt) return index
      if (index === nearest) return undefined
      index -= 1
    }
    return index
  }

  #sort(): void {
    this.#compact()
    this.#items.sort((a, b) => a.completedAt - b.completedAt)
    this.#sorted = true
  }

  #compact(): void {
    this.#items = [...this.values()]
    this.#start = 0
  }
}

/** An object without its body, as it takes space in the store. */
const OBJECT_BYTES = 2048

/** @param bodyBytes of the body, a large one of which stays in its segment */
export function finishedBytes(bodyBytes: number): number {
  return OBJECT_BYTES + (bodyBytes > INLINE_PAYLOAD_BYTES ? 0 : bodyBytes)
}

/** A finished delivery with the name of its object. Times in milliseconds since 1970. */
export type FinishedDelivery = {
  /** Shared by all deliveries of an endpoint. */
  readonly endpoint: EndpointIdentity
  readonly name: string
  readonly succeeded: boolean
  readonly completedAt: number
  /** About the size of its object in the store. */
  readonly bytes: number
  /** Of its entry in the log: while that is open, deleting the object would send it again. */
  readonly version: number
  readonly index: number
  /** The object's resourceVersion with the final status; 0 if unknown. */
  readonly objectVersion: number
  isRemoved: boolean
  /** This process will not delete it, and does not know whether it still exists. */
  isAbandoned: boolean
}

export type NewFinishedDelivery = Omit<FinishedDelivery, 'isRemoved' | 'isAbandoned'>

class Queues {
  bytes = 0
  readonly succeeded = new ExpiryQueue<FinishedDelivery>()
  readonly other = new ExpiryQueue<FinishedDelivery>()

  get size(): number {
    return this.succeeded.size + this.other.size
  }

  of({ succeeded }: FinishedDelivery): ExpiryQueue<FinishedDelivery> {
    return succeeded ? this.succeeded : this.other
  }

  all(): FinishedDelivery[] {
    return [...this.succeeded.values(), ...this.other.values()]
  }

  count(): FinishedCount {
    return {
      size: this.size,
      oldestSucceeded: this.succeeded.first()?.completedAt,
      oldestOther: this.other.first()?.completedAt,
    }
  }
}

type Group = { readonly endpoint: EndpointIdentity; readonly shard: number; readonly queues: Queues }

export class FinishedIndex {
  readonly #limits: RetentionLimits
  readonly #share: () => number
  #size = 0
  #bytes = 0
  readonly #organizations = new Map<string, Queues>()
  readonly #groups = new Map<string, Group>()
  /** Endpoints over their limit. */
  readonly #full = new Set<Group>()
  readonly #deleted = new Set<Group>()
  readonly #evicted = new Set<FinishedDelivery>()

  /** @param share of all endpoints that this index holds, 0 to 1, and so of the bytes for all */
  constructor(limits: RetentionLimits, share: () => number = () => 1) {
    this.#limits = limits
    this.#share = share
  }

  get size(): number {
    return this.#size
  }

  /** About the size of all objects in the store. */
  get bytes(): number {
    return this.#bytes
  }

  has(endpointUid: string): boolean {
    return this.#groups.has(endpointUid)
  }

  add(given: NewFinishedDelivery): FinishedDelivery {
    const group = this.#groupOf(given.endpoint)
    const finished = { ...given, endpoint: group.endpoint, isRemoved: false, isAbandoned: false }
    const organization = this.#organizationOf(finished)
    this.#size += 1
    this.#bytes += finished.bytes
    organization.bytes += finished.bytes
    organization.of(finished).add(finished)
    group.queues.of(finished).add(finished)
    if (group.queues.size > this.#limits.maxFinishedPerEndpoint) this.#full.add(group)
    return finished
  }

  /** All deliveries of a deleted endpoint go. */
  markEndpointDeleted(uid: string): void {
    const group = this.#groups.get(uid)
    if (group) this.#deleted.add(group)
  }

  /** Another process holds the endpoints of these shards from now on. */
  forget(shards: ReadonlySet<number>): void {
    for (const { shard, queues } of [...this.#groups.values()]) {
      if (!shards.has(shard)) continue
      for (const finished of queues.all()) {
        finished.isAbandoned = true
        this.#remove(finished)
      }
    }
  }

  /** Deletes it whatever its age, since the segment that it refers to takes too much space. */
  evict(finished: FinishedDelivery): void {
    if (!finished.isRemoved) this.#evicted.add(finished)
  }

  /**
   * Removes and returns the next one to delete. @param isClosed whether the entry at a position of the log is closed
   * @param now milliseconds since 1970
   */
  take(isClosed: (position: Position) => boolean, now: number): FinishedDelivery | undefined {
    const found = this.#next(isClosed, now)
    if (found) this.#remove(found)
    return found
  }

  #next(isClosed: (position: Position) => boolean, now: number): FinishedDelivery | undefined {
    for (const found of this.#unconditional()) if (isClosed(found)) return found
    const { maxFinishedBytes, maxFinishedPerEndpoint } = this.#limits
    const isOver = this.#bytes > maxFinishedBytes * this.#share()
    const largest = isOver ? this.#largestOrganization() : undefined
    // An expired delivery whose log entry is still open must not make a younger one go instead.
    const isDue = (one: FinishedDelivery) => isClosed(one) && hasExpired(one, this.#limits, now)
    const candidates: [Iterable<Queues>, number, (one: FinishedDelivery) => boolean][] = [
      [this.#organizations.values(), Number.POSITIVE_INFINITY, isDue],
      [largest ? [largest] : [], 0, isClosed],
      [[...this.#full].map(({ queues }) => queues), maxFinishedPerEndpoint, isClosed],
    ]
    for (const [all, max, mayGo] of candidates)
      for (const queues of all) {
        const which = nextToDelete(queues.count(), max, this.#limits, now)
        const found = which && queues[which].firstWhere(mayGo)
        if (found) return found
      }
    return undefined
  }

  /** Those that go whatever their age and number. */
  *#unconditional(): IterableIterator<FinishedDelivery> {
    for (const { queues } of this.#deleted) {
      yield* queues.succeeded.values()
      yield* queues.other.values()
    }
    yield* this.#evicted
  }

  /** Over the limit for all, the organization with the most gives way, so that no other one loses its log to it. */
  #largestOrganization(): Queues | undefined {
    let largest: Queues | undefined
    for (const queues of this.#organizations.values())
      if (queues.bytes > (largest?.bytes ?? 0)) largest = queues
    return largest
  }

  #organizationOf({ endpoint: { namespace } }: FinishedDelivery): Queues {
    const held = this.#organizations.get(namespace) ?? new Queues()
    if (held.size === 0) this.#organizations.set(namespace, held)
    return held
  }

  #remove(finished: FinishedDelivery): void {
    const group = this.#groupOf(finished.endpoint)
    finished.isRemoved = true
    this.#evicted.delete(finished)
    const organization = this.#organizationOf(finished)
    organization.of(finished).noteRemoved()
    organization.bytes -= finished.bytes
    if (organization.size === 0) this.#organizations.delete(finished.endpoint.namespace)
    this.#size -= 1
    this.#bytes -= finished.bytes
    group.queues.of(finished).noteRemoved()
    if (group.queues.size <= this.#limits.maxFinishedPerEndpoint) this.#full.delete(group)
    if (group.queues.size > 0) return
    this.#deleted.delete(group)
    this.#groups.delete(finished.endpoint.uid)
  }

  #groupOf(endpoint: EndpointIdentity): Group {
    const held = this.#groups.get(endpoint.uid)
    if (held) return held
    const { namespace, name, uid } = endpoint
    const group: Group = { endpoint: { namespace, name, uid }, shard: shardOf(uid), queues: new Queues() }
    this.#groups.set(uid, group)
    return group
  }
}

/**
 * Which delivery objects refer to a body in the log (those over 16 KiB): a segment with a body that may still be sent, or read by a user,
 * must stay. Objects are named `<namespace>/<name>`.
 */
export class PayloadRefs {
  /**
   * By segment: the objects, and those known to be finished. An abandoned one does not count as known, since the new owner of its shard
   * may have deleted it.
   */
  readonly #holders = new Map<string, Map<string, FinishedDelivery | undefined>>()
  readonly #segments = new Map<string, string>()

  get size(): number {
    return this.#segments.size
  }

  hold(object: string, segment: string): void {
    if (this.#segments.has(object)) return
    this.#segments.set(object, segment)
    const holders = this.#holders.get(segment)
    if (holders) holders.set(object, undefined)
    else this.#holders.set(segment, new Map([[object, undefined]]))
  }

  /** The object still refers to the segment. */
  finished(object: string, finished: FinishedDelivery): void {
    const segment = this.#segments.get(object)
    if (segment !== undefined) this.#holders.get(segment)?.set(object, finished)
  }

  release(object: string): void {
    const segment = this.#segments.get(object)
    if (segment === undefined) return
    this.#segments.delete(object)
    const holders = this.#holders.get(segment)
    holders?.delete(object)
    if (holders?.size === 0) this.#holders.delete(segment)
  }

  forget(segment: string): void {
    for (const object of this.#holders.get(segment)?.keys() ?? []) this.#segments.delete(object)
    this.#holders.delete(segment)
  }

  holders(segment: string): Holders {
    const holders = this.#holders.get(segment)
    if (!holders) return 'none'
    let found: Holders = 'succeeded'
    for (const finished of holders.values()) {
      if (!isKnown(finished)) return 'unfinished'
      if (!finished.succeeded) found = 'finished'
    }
    return found
  }

  unfinishedOf(segment: string): string[] {
    const holders = [...(this.#holders.get(segment) ?? [])]
    return holders.flatMap(([object, finished]) => (isKnown(finished) ? [] : [object]))
  }

  finishedOf(segment: string): FinishedDelivery[] {
    const holders = this.#holders.get(segment)?.values() ?? []
    return [...holders].filter(isKnown)
  }
}

function isKnown(finished: FinishedDelivery | undefined): finished is FinishedDelivery {
  return finished !== undefined && !finished.isAbandoned
}
