/**
 * The finished deliveries that have an object: what retention may delete. Slim, since there may be 200,000: some
 * 150 bytes each.
 */

import { shardOf } from '../../ha/shard.ts'
import { OldestFirst } from './oldest-first.ts'
import { type FinishedCount, nextToDelete, type RetentionLimits } from './retention-plan.ts'

export type EndpointOf = { readonly namespace: string; readonly name: string; readonly uid: string }

export type Finished = {
  /** One object for all of an endpoint. */
  readonly endpoint: EndpointOf
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
  taken: boolean
  /** Nor will this process delete it: whether it is still there is not known. */
  left: boolean
}

export type NewFinished = Omit<Finished, 'endpoint' | 'taken' | 'left'> & { endpoint: EndpointOf }

class Queues {
  readonly succeeded = new OldestFirst<Finished>()
  readonly other = new OldestFirst<Finished>()

  get size(): number {
    return this.succeeded.size + this.other.size
  }

  of({ succeeded }: Finished): OldestFirst<Finished> {
    return succeeded ? this.succeeded : this.other
  }

  all(): Finished[] {
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

type Group = { readonly endpoint: EndpointOf; readonly shard: number; readonly queues: Queues }

export class FinishedIndex {
  readonly #limits: RetentionLimits
  readonly #share: () => number
  readonly #all = new Queues()
  readonly #groups = new Map<string, Group>()
  /** Endpoints with more than they may have. */
  readonly #full = new Set<Group>()
  /** Endpoints that are gone. */
  readonly #gone = new Set<Group>()
  readonly #evicted = new Set<Finished>()

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

  add(given: NewFinished): Finished {
    const group = this.#groupOf(given.endpoint)
    const { name, succeeded, completedAt, version, objectVersion } = given
    const finished: Finished = {
      endpoint: group.endpoint,
      name,
      succeeded,
      completedAt,
      version,
      objectVersion,
      taken: false,
      left: false,
    }
    this.#all.of(finished).add(finished)
    group.queues.of(finished).add(finished)
    if (group.queues.size > this.#limits.maxFinishedPerEndpoint) this.#full.add(group)
    return finished
  }

  /** The endpoint does not exist any more: all of its deliveries go. */
  endpointGone(uid: string): void {
    const group = this.#groups.get(uid)
    if (group) this.#gone.add(group)
  }

  /** Another index has what is of the endpoints of these shards from here on. */
  forget(shards: ReadonlySet<number>): void {
    for (const { shard, queues } of [...this.#groups.values()]) {
      if (!shards.has(shard)) continue
      for (const finished of queues.all()) {
        finished.left = true
        this.#remove(finished)
      }
    }
  }

  /** It goes, whatever its age: what it refers to takes too much space. */
  evict(finished: Finished): void {
    if (!finished.taken) this.#evicted.add(finished)
  }

  /**
   * Takes out the next that is to be deleted. @param lowWater every entry of the log up to this version is closed
   * @param now milliseconds since 1970
   */
  take(lowWater: number, now: number): Finished | undefined {
    const found = this.#next(lowWater, now)
    if (found) this.#remove(found)
    return found
  }

  #next(lowWater: number, now: number): Finished | undefined {
    const closed = (found: Finished | undefined) => (found && found.version <= lowWater ? found : undefined)
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

  #remove(finished: Finished): void {
    const group = this.#groupOf(finished.endpoint)
    finished.taken = true
    this.#evicted.delete(finished)
    this.#all.of(finished).markTaken()
    group.queues.of(finished).markTaken()
    if (group.queues.size <= this.#limits.maxFinishedPerEndpoint) this.#full.delete(group)
    if (group.queues.size > 0) return
    this.#gone.delete(group)
    this.#groups.delete(finished.endpoint.uid)
  }

  #groupOf(endpoint: EndpointOf): Group {
    const held = this.#groups.get(endpoint.uid)
    if (held) return held
    const { namespace, name, uid } = endpoint
    const group: Group = { endpoint: { namespace, name, uid }, shard: shardOf(uid), queues: new Queues() }
    this.#groups.set(uid, group)
    return group
  }
}
