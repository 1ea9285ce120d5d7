/**
 * Replicas on one store, and shards that move between them under the rules of the coordinator: the previous owner has released a
 * shard, or was silent for the duration of its lease. Then ordered endpoints wait until its attempts must have ended, too.
 */

import { sleep } from '../../src/lib/time.ts'
import { readLowWater } from '../../src/webhooks/log/read-back.ts'
import { chanceOf } from './chance.ts'
import { FakeClock } from './fake-clock.ts'
import { logOn } from './log-on.ts'
import { ReplicaBed } from './replica-bed.ts'
import type { ReplicaWorld } from './replica-process.ts'
import { SharedStore } from './shared-store.ts'

/** The lease: how long the others wait for a silent replica. */
const EXPIRED_MS = 9000
/** Lease and drain time: when its work has certainly ended. */
export const GONE_MS = 30_000
/** Renewed later than this, it gives up what others may have taken over. */
const KEEPS_MS = 7500
const LOOK_MS = 100
/** Renewal interval of a lease. */
const RENEWED_MS = 2000
const HOLDS_MS = 6000

export class HandoffWorld implements ReplicaWorld {
  readonly clock = new FakeClock()
  readonly shared = new SharedStore(this.clock, () => this.living.map(({ process }) => process))
  readonly chance: () => number
  readonly replicas: ReplicaBed[] = []
  readonly waitScale = 1
  readonly calmMs = 2 * 60_000
  /** Called for each new replica. */
  readonly #onReplica: (replica: ReplicaBed) => void
  /** Called for a replica that has given up shards with work in progress. */
  onGivenUpAnyway: (replica: ReplicaBed) => void = () => undefined
  /** Called for a replica whose lease has ended while it was cut off. */
  onLapse: (replica: ReplicaBed) => void = () => undefined
  readonly #owners = new Map<number, ReplicaBed>()
  readonly #moving = new Set<number>()
  /** When the work of the owner before has certainly ended, by shard. */
  readonly #aloneAt = new Map<number, number>()

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
      lowWater: await readLowWater(logOn(this.shared.store, this)),
      claimedElsewhere: (shards, one) => void this.#claimAgain(shards, one),
      givenUpAnyway: (one) => this.onGivenUpAnyway(one),
      isAlone: (shard) => this.clock.now() >= (this.#aloneAt.get(shard) ?? 0),
    })
    this.replicas.push(replica)
    this.#onReplica(replica)
    return replica
  }

  /** Moves these shards to a replica, except those that are already moving. */
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

  /** Suspends the replica for this time. */
  stop(replica: ReplicaBed, ms: number): void {
    if (!replica.process.runs || !replica.mayAct) return
    replica.stop(this.clock.now())
    this.clock.after(ms, () => void this.#resume(replica))
  }

  /** Cuts the replica off for this time; it keeps running. */
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

  /** Loses some of its calls or their answers for this time. */
  lose(replica: ReplicaBed, ms: number): void {
    replica.process.way.lost = 0.2
    this.clock.after(ms, () => {
      replica.process.way.lost = 0
    })
  }

  /** Like the coordinator: shards that it still owns are given up and claimed again. */
  async #claimAgain(shards: readonly number[], replica: ReplicaBed): Promise<void> {
    const own = shards.filter((shard) => this.#owners.get(shard) === replica)
    // A handoff in progress may be another replica's, and makes its own claim.
    while (own.some((shard) => this.#moving.has(shard))) await sleep(this.clock, LOOK_MS)
    this.move(
      own.filter((shard) => this.#owners.get(shard) === replica && !replica.process.isDead),
      replica,
    )
  }

  /** Whether nothing is in progress. */
  get isSettled(): boolean {
    return this.#moving.size === 0 && this.living.every(({ isWell }) => isWell)
  }

  /** Resumes the replica, which finds its lease expired, and renews it after a moment. */
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
    const isLate = this.clock.now() - replica.goneAt >= KEEPS_MS
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

  /** Occasionally aborts on the way. */
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
    // The coordinator ends a failed or aborted start before it begins again.
    return (await Promise.race([to.release(shards).then(() => 'failed' as const), gone])) ?? 'gone'
  }

  /** Resolves when the owner has released the shards, or was silent for long enough. */
  async #givenUp(owner: ReplicaBed, shards: readonly number[]): Promise<void> {
    for (;;) {
      if (owner.isWell) {
        const gone = owner.gone.promise.then(() => false)
        if (await Promise.race([owner.release(shards).then(() => true), gone])) return
      }
      if (this.clock.now() - owner.goneAt >= EXPIRED_MS) return this.#markNotAlone(shards, owner.goneAt)
      await sleep(this.clock, LOOK_MS)
    }
  }

  /** Until the work of a silent owner has certainly ended, what must not overlap with it waits. */
  #markNotAlone(shards: readonly number[], goneAt: number): void {
    const aloneAt = goneAt + GONE_MS
    for (const shard of shards) this.#aloneAt.set(shard, Math.max(aloneAt, this.#aloneAt.get(shard) ?? 0))
    this.clock.after(Math.max(0, aloneAt - this.clock.now()), () => {
      for (const { process } of this.living) process.parts.engine.wake(new Set(shards))
    })
  }

  /** A resumed replica reports its work in progress, and the others wait for that. */
  async #drained(shards: readonly number[]): Promise<void> {
    const isDraining = () => this.running.some(({ draining }) => shards.some((shard) => draining.has(shard)))
    while (isDraining()) await sleep(this.clock, LOOK_MS)
  }

  #shardsOf(replica: ReplicaBed): number[] {
    return [...this.#owners].flatMap(([shard, owner]) => (owner === replica ? [shard] : []))
  }
}
