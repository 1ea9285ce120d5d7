import { shardOf } from '../../ha/assignment.ts'
import { type FinishedCount, type Holders, nextToDelete, type RetentionLimits } from './retention-plan.ts'

/** What ended at some time, and may have been taken out of this queue and others. */
export type ExpiringItem = { readonly completedAt: number; isRemoved: boolean }

/** Ends are told nearly in their order: so far back a place is looked for, beyond that all are sorted. */
const NEAR = 64
/** Fewer dead entries than this are not worth a compaction. */
const SLACK = 64

/**
 * A queue by the time of the end, the oldest in front. In front and at the back it costs O(1), amortised; what is
 * taken elsewhere stays as a dead entry until that pays.
 */
export class ExpiryQueue<T extends ExpiringItem> {
  #items: T[] = []
  #start = 0
  #size = 0
  #sorted = true

  /** Entries that were not taken. */
  get size(): number {
    return this.#size
  }

  add(item: T): void {
    this.#size += 1
    const place = this.#sorted ? this.#placeOf(item) : undefined
    if (place === undefined) this.#sorted = false
    if (place === undefined || place === this.#items.length) this.#items.push(item)
    else this.#items.splice(place, 0, item)
  }

  first(): T | undefined {
    if (!this.#sorted) this.#sort()
    while (this.#items[this.#start]?.isRemoved) this.#start += 1
    return this.#items[this.#start]
  }

  /** An entry of this queue was marked as taken. */
  markTaken(): void {
    this.#size -= 1
    if (this.#items.length > 2 * this.#size + SLACK) this.#compact()
  }

  *values(): IterableIterator<T> {
    for (let at = this.#start; at < this.#items.length; at += 1) {
      const item = this.#items[at]
      if (item && !item.isRemoved) yield item
    }
  }

  /** Undefined when it is not near. */
  #placeOf(item: T): number | undefined {
    let place = this.#items.length
    const nearest = Math.max(this.#start, place - NEAR)
    while (place > this.#start) {
      const before = this.#items[place - 1]
      if (!before || before.completedAt <= item.completedAt) return place
      if (place === nearest) return undefined
      place -= 1
    }
    return place
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

/**
 * The finished deliveries that have an object: what retention may delete. Slim, since there may be 200,000: some
 * 150 bytes each.
 */

export type EndpointRef = { readonly namespace: string; readonly name: string; readonly uid: string }

export type FinishedDelivery = {
  /** One object for all of an endpoint. */
  readonly endpoint: EndpointRef
  /** Name of the object. */
  readonly name: string
  readonly succeeded: boolean
  /** Milliseconds since 1970. */
  readonly completedAt: number
  /** The place of its entry in the log; an entry that is not closed would be delivered again without the object. */
  readonly version: number
  /** The object's version in which it is finished; 0 where that is not known. */
  readonly objectVersion: number
  /** No longer in the index. */
  isRemoved: boolean
  /** Nor will this process delete it: whether it is still there is not known. */
  isAbandoned: boolean
}

export type NewFinishedDelivery = Omit<FinishedDelivery, 'endpoint' | 'isRemoved' | 'isAbandoned'> & {
  endpoint: EndpointRef
}

class Queues {
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

type Group = { readonly endpoint: EndpointRef; readonly shard: number; readonly queues: Queues }

export class FinishedIndex {
  readonly #limits: RetentionLimits
  readonly #share: () => number
  readonly #all = new Queues()
  readonly #groups = new Map<string, Group>()
  /** Endpoints with more than they may have. */
  readonly #full = new Set<Group>()
  /** Endpoints that are gone. */
  readonly #gone = new Set<Group>()
  readonly #evicted = new Set<FinishedDelivery>()

  /** @param share of all endpoints that are this index's, 0 to 1: it may have as much of what all may have */
  constructor(limits: RetentionLimits, share: () => number = () => 1) {
    this.#limits = limits
    this.#share = share
  }

  get size(): number {
    return this.#all.size
  }

  /** Whether it has anything of the endpoint with this UID. */
  has(endpointUid: string): boolean {
    return this.#groups.has(endpointUid)
  }

  add(given: NewFinishedDelivery): FinishedDelivery {
    const group = this.#groupOf(given.endpoint)
    const { name, succeeded, completedAt, version, objectVersion } = given
    const finished: FinishedDelivery = {
      endpoint: group.endpoint,
      name,
      succeeded,
      completedAt,
      version,
      objectVersion,
      isRemoved: false,
      isAbandoned: false,
    }
    this.#all.of(finished).add(finished)
    group.queues.of(finished).add(finished)
    if (group.queues.size > this.#limits.maxFinishedPerEndpoint) this.#full.add(group)
    return finished
  }

  /** The endpoint does not exist any more: all of its deliveries go. */
  markEndpointDeleted(uid: string): void {
    const group = this.#groups.get(uid)
    if (group) this.#gone.add(group)
  }

  /** Another index has what is of the endpoints of these shards from here on. */
  forget(shards: ReadonlySet<number>): void {
    for (const { shard, queues } of [...this.#groups.values()]) {
      if (!shards.has(shard)) continue
      for (const finished of queues.all()) {
        finished.isAbandoned = true
        this.#remove(finished)
      }
    }
  }

  /** It goes, whatever its age: what it refers to takes too much space. */
  evict(finished: FinishedDelivery): void {
    if (!finished.isRemoved) this.#evicted.add(finished)
  }

  /**
   * Takes out the next that is to be deleted. @param lowWater every entry of the log up to this version is closed
   * @param now milliseconds since 1970
   */
  take(lowWater: number, now: number): FinishedDelivery | undefined {
    const found = this.#next(lowWater, now)
    if (found) this.#remove(found)
    return found
  }

  #next(lowWater: number, now: number): FinishedDelivery | undefined {
    const closed = (found: FinishedDelivery | undefined) =>
      found && found.version <= lowWater ? found : undefined
    for (const { queues } of this.#gone) {
      const found = closed(queues.succeeded.first()) ?? closed(queues.other.first())
      if (found) return found
    }
    for (const found of this.#evicted) if (closed(found)) return found
    const oldest = (queues: Queues, max: number) => {
      const which = nextToDelete(queues.count(), max, this.#limits, now)
      return which && closed(queues[which].first())
    }
    const found = oldest(this.#all, Math.ceil(this.#limits.maxFinished * this.#share()))
    if (found) return found
    for (const { queues } of this.#full) {
      const surplus = oldest(queues, this.#limits.maxFinishedPerEndpoint)
      if (surplus) return surplus
    }
    return undefined
  }

  #remove(finished: FinishedDelivery): void {
    const group = this.#groupOf(finished.endpoint)
    finished.isRemoved = true
    this.#evicted.delete(finished)
    this.#all.of(finished).markTaken()
    group.queues.of(finished).markTaken()
    if (group.queues.size <= this.#limits.maxFinishedPerEndpoint) this.#full.delete(group)
    if (group.queues.size > 0) return
    this.#gone.delete(group)
    this.#groups.delete(finished.endpoint.uid)
  }

  #groupOf(endpoint: EndpointRef): Group {
    const held = this.#groups.get(endpoint.uid)
    if (held) return held
    const { namespace, name, uid } = endpoint
    const group: Group = { endpoint: { namespace, name, uid }, shard: shardOf(uid), queues: new Queues() }
    this.#groups.set(uid, group)
    return group
  }
}

/**
 * Which delivery objects refer to a payload in the log: a segment with a payload that may still be sent, or
 * shown, must stay. Only payloads over 16 KiB are referred to; smaller ones are in the object.
 */

export class PayloadRefs {
  /**
   * By segment the objects, as `<namespace>/<name>`, with what is known of those that have finished. What this process has left is in
   * doubt: another one that has taken its shard deletes it without a word to this one.
   */
  readonly #holders = new Map<string, Map<string, FinishedDelivery | undefined>>()
  readonly #segments = new Map<string, string>()

  /** Objects that refer to a segment. */
  get size(): number {
    return this.#segments.size
  }

  /** Telling the same again changes nothing. @param object `<namespace>/<name>` */
  hold(object: string, segment: string): void {
    if (this.#segments.has(object)) return
    this.#segments.set(object, segment)
    const holders = this.#holders.get(segment)
    if (holders) holders.set(object, undefined)
    else this.#holders.set(segment, new Map([[object, undefined]]))
  }

  /** The delivery has finished; its object goes on referring. */
  finished(object: string, finished: FinishedDelivery): void {
    const segment = this.#segments.get(object)
    if (segment !== undefined) this.#holders.get(segment)?.set(object, finished)
  }

  /** The object is gone. */
  release(object: string): void {
    const segment = this.#segments.get(object)
    if (segment === undefined) return
    this.#segments.delete(object)
    const holders = this.#holders.get(segment)
    holders?.delete(object)
    if (holders?.size === 0) this.#holders.delete(segment)
  }

  /** The segment is gone, and with it what was referred to. */
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

  /** Those of which it is not known that they have finished. */
  unfinishedOf(segment: string): string[] {
    const holders = [...(this.#holders.get(segment) ?? [])]
    return holders.flatMap(([object, finished]) => (isKnown(finished) ? [] : [object]))
  }

  /** The finished ones of those that refer to it. */
  finishedOf(segment: string): FinishedDelivery[] {
    const holders = this.#holders.get(segment)?.values() ?? []
    return [...holders].filter(isKnown)
  }
}

function isKnown(finished: FinishedDelivery | undefined): finished is FinishedDelivery {
  return finished !== undefined && !finished.isAbandoned
}
