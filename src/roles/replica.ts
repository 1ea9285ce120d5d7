/** This replica among the others: its Lease, the shards that it has, and what it may do. */
import { MAX_REPLICAS } from '../api/replica-lease.ts'
import type { Config } from '../config.ts'
import { LONGEST_REST_MS } from '../controllers/delivery/rest-lanes.ts'
import { LeaseRecords } from '../controllers/replicas/lease-records.ts'
import { SHARDS } from '../domain/shard.ts'
import type { Clock } from '../ports/clock.ts'
import type { ShardOwnership } from '../runtime/shards/ownership.ts'
import { ShardKeeper } from '../runtime/shards/shard-keeper.ts'
import { shardTimes } from '../runtime/shards/shard-times.ts'
import type { ShardWork } from '../runtime/shards/shard-work.ts'
import { Tenures } from '../runtime/shards/tenures.ts'
import type { World } from './world-types.ts'

export type ReplicaOptions = {
  config: Pick<Config, 'namespace' | 'replica' | 'isReplicaGiven' | 'leaseMs'>
  world: Pick<World, 'api' | 'log' | 'random'>
  /** That of the machine: Leases are of a time that all replicas share. */
  clock: Clock
  onReplaced: () => void
  /** The store is older than what was read of it. */
  onSetBack: () => void
}

export class Replica implements ShardOwnership {
  /** Of this start of it. */
  readonly session: string
  readonly tenures = new Tenures()
  readonly #options: ReplicaOptions
  #keeper: ShardKeeper | undefined
  #running: Promise<void> = Promise.resolve()
  readonly #gone = new AbortController()

  constructor(options: ReplicaOptions) {
    this.#options = options
    const { replica } = options.config
    this.session = `${replica}.${Buffer.from(options.world.random.bytes(6)).toString('hex')}`
  }

  owns(shard: number): boolean {
    return this.#keeper?.owns(shard) ?? false
  }

  /** Shards that it works on. */
  get owned(): number {
    return this.#keeper?.owned ?? 0
  }

  /** Milliseconds since its Lease was renewed; Infinity before it has one. */
  get leaseAgeMs(): number {
    return this.#keeper?.leaseAgeMs ?? Number.POSITIVE_INFINITY
  }

  /** Nobody else thinks that it is gone. */
  get mayAct(): boolean {
    return this.#keeper?.mayAct ?? false
  }

  /** Whether what runs now may write: what it is done for is this replica's since that was begun. */
  get mayWrite(): boolean {
    return this.mayAct && this.tenures.mayWrite
  }

  /** @returns whether the shard is held as it is now, and may be written for */
  holding(shard: number): () => boolean {
    const tenure = this.tenures.of(shard)
    return () => this.mayAct && !tenure.isOver
  }

  /** It waits for another process that has its name, or had it until a moment ago. */
  get isNameTaken(): boolean {
    return this.#keeper?.isNameTaken ?? false
  }

  /** Resolves when it works on everything that is its own. @param work must be ready for it */
  join(work: ShardWork): Promise<void> {
    const { config, world, clock, onReplaced, onSetBack } = this.#options
    const times = shardTimes(config.leaseMs, LONGEST_REST_MS)
    const records = new LeaseRecords({
      resources: world.api,
      namespace: config.namespace,
      role: 'controller',
      clock,
      deadlineMs: times.renewEveryMs,
      onSetBack,
    })
    this.#keeper = new ShardKeeper({
      name: config.replica,
      isNameOwn: config.isReplicaGiven,
      session: this.session,
      shards: SHARDS,
      maxMembers: MAX_REPLICAS,
      times,
      records,
      tenures: this.tenures,
      work,
      clock,
      log: world.log,
      onReplaced,
    })
    this.#running = this.#keeper.run(this.#gone.signal)
    return this.#keeper.settled
  }

  /** Somebody else has claimed them: they are given up, and taken again if they are this replica's. */
  claimAnew(shards: readonly number[]): void {
    this.#keeper?.restart(shards)
  }

  /** Hands everything over. Resolves when nothing is under way, and the others know. */
  async leave(): Promise<void> {
    this.#keeper?.leave()
    await this.#running
  }

  /** It says nothing to the others any more. */
  gone(): void {
    this.#gone.abort()
  }
}
