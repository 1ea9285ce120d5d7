/**
 * Replicas on one store, and shards that move between them as the keeper of shards lets them: whoever had one has released
 * it, or was not heard of for as long as its lease and its attempts last.
 */

import { sleep } from '../../src/lib/time.ts'
import { readLowWater } from '../../src/webhooks/log/reader.ts'
import { chanceOf } from './chance.ts'
import { SYSTEM } from './engine-parts.ts'
import { FakeClock } from './fake-clock.ts'
import { ReplicaBed } from './replica-bed.ts'
import type { ReplicaWorld } from './replica-process.ts'
import { SharedStore } from './shared-store.ts'

/** Lease and drain time: so long the others wait for one that they do not hear of. */
export const GONE_MS = 30_000
const LOOK_MS = 100
/** A lease is renewed so often, and holds so long. */
const RENEWED_MS = 2000
const HOLDS_MS = 6000

export class HandoffWorld implements ReplicaWorld {
  readonly clock = new FakeClock()
  readonly shared = new SharedStore(this.clock, () => this.living.map(({ process }) => process))
  readonly chance: () => number
  readonly replicas: ReplicaBed[] = []
  readonly waitScale = 1
  readonly calmMs = 2 * 60_000
  /** Told of each new one. */
  readonly #onReplica: (replica: ReplicaBed) => void
  /** Told of one that has given up shards with something under way. */
  onGivenUpAnyway: (replica: ReplicaBed) => void = () => undefined
  /** Told of one whose lease has ended while it was cut off. */
  onLapse: (replica: ReplicaBed) => void = () => undefined
  readonly #owners = new Map<number, ReplicaBed>()
  readonly #moving = new Set<number>()

  constructor(seed: number, onReplica: (replica: ReplicaBed) => void) {
    this.chance = chanceOf(seed)
    this.#onReplica = onReplica
  }

  get running(): ReplicaBed[] {
    return this.replicas.filter(({ isWell }) => isWell)
  }

  get living(): ReplicaBed[] {
    return this.replicas.filter(({ process }) => !process.isDead)
  }

  async join(): Promise<ReplicaBed> {
    const session = `r${this.replicas.length + 1}`
    const replica = new ReplicaBed(this, {
      session,
      lowWater: await readLowWater(this.shared.store, SYSTEM),
      claimedElsewhere: (shards, one) => void this.#claimAnew(shards, one),
      givenUpAnyway: (one) => this.onGivenUpAnyway(one),
    })
    this.replicas.push(replica)
    this.#onReplica(replica)
    return replica
  }

  /** These shards are to be this replica's, as far as none is on its way already. */
  move(shards: readonly number[], to: ReplicaBed): void {
    const free = shards.filter((shard) => !this.#moving.has(shard))
    if (free.length === 0) return
    for (const shard of free) this.#moving.add(shard)
    void this.#move(free, to).finally(() => {
      for (const shard of free) this.#moving.delete(shard)
    })
  }

  async kill(replica: ReplicaBed): Promise<void> {
    replica.kill(this.clock.now())
    if (this.living.length < 2) await this.join()
    const [first] = this.running
    this.move(this.#shardsOf(replica), first ?? (await this.join()))
  }

  /** Nothing of it runs for so long. */
  stop(replica: ReplicaBed, ms: number): void {
    if (!replica.process.runs || !replica.mayAct) return
    replica.stop(this.clock.now())
    this.clock.after(ms, () => void this.#resume(replica))
  }

  /** It runs on, and nothing goes through for so long. */
  cut(replica: ReplicaBed, ms: number): void {
    if (!replica.isWell) return
    const renewedAt = this.clock.now() - Math.floor(this.chance() * RENEWED_MS)
    replica.cutOff(renewedAt)
    this.clock.after(Math.max(0, renewedAt + HOLDS_MS - this.clock.now()), () => {
      if (replica.goneAt !== renewedAt) return
      replica.mayAct = false
      this.onLapse(replica)
    })
    this.clock.after(ms, () => void this.#reconnect(replica))
  }

  /** Some of what it sends, or of the answers, gets lost for so long. */
  lose(replica: ReplicaBed, ms: number): void {
    replica.process.way.lost = 0.2
    this.clock.after(ms, () => {
      replica.process.way.lost = 0
    })
  }

  /** As the keeper of shards: what is its own all the same is given up and claimed anew. */
  async #claimAnew(shards: readonly number[], replica: ReplicaBed): Promise<void> {
    const own = shards.filter((shard) => this.#owners.get(shard) === replica)
    // A hand-over that is under way may be of another replica's, and brings a claim of its own.
    while (own.some((shard) => this.#moving.has(shard))) await sleep(this.clock, LOOK_MS)
    this.move(
      own.filter((shard) => this.#owners.get(shard) === replica && !replica.process.isDead),
      replica,
    )
  }

  /** Whether everything is at rest. */
  get isSettled(): boolean {
    return this.#moving.size === 0 && this.living.every(({ isWell }) => isWell)
  }

  /** It goes on, finds that its lease is over, and renews that after a moment. */
  async #resume(replica: ReplicaBed): Promise<void> {
    await replica.process.resume()
    await this.#renew(replica)
  }

  async #reconnect(replica: ReplicaBed): Promise<void> {
    await replica.process.reconnect()
    await this.#renew(replica)
  }

  async #renew(replica: ReplicaBed): Promise<void> {
    await sleep(this.clock, Math.floor(this.chance() * 500))
    // It may have been stopped or cut off again.
    if (replica.process.isDead || !replica.process.runs || replica.process.way.isCut) return
    const isLate = this.clock.now() - replica.goneAt >= GONE_MS
    const lost = isLate ? [...replica.active] : []
    replica.renewed(lost, isLate)
    const kept = lost.filter((shard) => this.#owners.get(shard) === replica)
    this.move(kept, replica)
  }

  async #move(shards: readonly number[], to: ReplicaBed): Promise<void> {
    const owners = Map.groupBy(shards, (shard) => this.#owners.get(shard))
    await Promise.all([...owners].map(([owner, part]) => owner && this.#givenUp(owner, part)))
    let next = to
    for (;;) {
      await this.#drained(shards)
      if (!next.isWell) {
        await sleep(this.clock, LOOK_MS)
        next = this.running[0] ?? next
        continue
      }
      for (const shard of shards) this.#owners.set(shard, next)
      const how = await this.#tryTake(next, shards)
      if (how === 'taken') return
      if (how === 'gone') await this.#givenUp(next, shards)
      else await sleep(this.clock, LOOK_MS)
    }
  }

  /** Now and then it is given up on the way. */
  async #tryTake(to: ReplicaBed, shards: readonly number[]): Promise<'taken' | 'failed' | 'gone'> {
    const abort = new AbortController()
    if (this.chance() < 0.1) this.clock.after(Math.floor(this.chance() * 60), () => abort.abort())
    const gone = to.gone.promise.then(() => 'gone' as const)
    const taken = to.take(shards, abort.signal).then(
      () => 'taken' as const,
      () => 'failed' as const,
    )
    const how = await Promise.race([taken, gone])
    if (how === 'gone') abort.abort()
    if (how !== 'failed') return how
    // The keeper ends what has failed, or was given up, before it begins it again.
    return (await Promise.race([to.release(shards).then(() => 'failed' as const), gone])) ?? 'gone'
  }

  /** Resolves when it has released them, or was not heard of for long enough. */
  async #givenUp(owner: ReplicaBed, shards: readonly number[]): Promise<void> {
    for (;;) {
      if (owner.isWell) {
        const gone = owner.gone.promise.then(() => false)
        if (await Promise.race([owner.release(shards).then(() => true), gone])) return
      }
      if (this.clock.now() - owner.goneAt >= GONE_MS) return
      await sleep(this.clock, LOOK_MS)
    }
  }

  /** Who is back from a stop says what it has under way, and the others wait for that. */
  async #drained(shards: readonly number[]): Promise<void> {
    const isDraining = () => this.running.some(({ draining }) => shards.some((shard) => draining.has(shard)))
    while (isDraining()) await sleep(this.clock, LOOK_MS)
  }

  #shardsOf(replica: ReplicaBed): number[] {
    return [...this.#owners].flatMap(([shard, owner]) => (owner === replica ? [shard] : []))
  }
}
