/** This replica among the others: its Lease, the shards that it has, and what it may do. */

import { MAX_REPLICAS } from '../apis/leases.ts'
import { SHARD_COUNT } from '../ha/assignment.ts'
import { ShardCoordinator } from '../ha/coordinator.ts'
import { OwnershipEpochs, type ShardOwnership } from '../ha/ownership.ts'
import { deriveShardTimes, KubernetesReplicaRecords, type ShardWork } from '../ha/replica-records.ts'
import type { Clock } from '../lib/clock.ts'
import { DRAIN_TIMEOUT_MS } from '../webhooks/delivery/engine.ts'
import type { Config } from './config.ts'
import type { ControllerDependencies } from './dependencies.ts'

export type ReplicaOptions = {
  config: Pick<Config, 'namespace' | 'replica' | 'isReplicaGiven' | 'leaseMs'>
  world: Pick<ControllerDependencies, 'api' | 'log' | 'random'>
  /** That of the machine: Leases are of a time that all replicas share. */
  clock: Clock
  onReplaced: () => void
  /** The store is older than what was read of it. */
  onSetBack: () => void
}

export class Replica implements ShardOwnership {
  /** Of this start of it. */
  readonly session: string
  readonly epochs = new OwnershipEpochs()
  readonly #options: ReplicaOptions
  #coordinator: ShardCoordinator | undefined
  #running: Promise<void> = Promise.resolve()
  readonly #gone = new AbortController()

  constructor(options: ReplicaOptions) {
    this.#options = options
    const { replica } = options.config
    this.session = `${replica}.${Buffer.from(options.world.random.bytes(6)).toString('hex')}`
  }

  owns(shard: number): boolean {
    return this.#coordinator?.owns(shard) ?? false
  }

  /** Shards that it works on. */
  get ownedShardCount(): number {
    return this.#coordinator?.owned ?? 0
  }

  /** Milliseconds since its Lease was renewed; Infinity before it has one. */
  get leaseAgeMs(): number {
    return this.#coordinator?.leaseAgeMs ?? Number.POSITIVE_INFINITY
  }

  /** Nobody else thinks that it is gone. */
  get mayAct(): boolean {
    return this.#coordinator?.mayAct ?? false
  }

  /** Whether what runs now may write: what it is done for is this replica's since that was begun. */
  get mayWrite(): boolean {
    return this.mayAct && this.epochs.mayWrite
  }

  /** @returns whether the shard is held as it is now, and may be written for */
  ownershipCheck(shard: number): () => boolean {
    const epoch = this.epochs.current(shard)
    return () => this.mayAct && !epoch.isRevoked
  }

  /** It waits for another process that has its name, or had it until a moment ago. */
  get isNameTaken(): boolean {
    return this.#coordinator?.isNameTaken ?? false
  }

  /** Resolves when it works on everything that is its own. @param work must be ready for it */
  join(work: ShardWork): Promise<void> {
    const { config, world, clock, onReplaced, onSetBack } = this.#options
    const times = deriveShardTimes(config.leaseMs, DRAIN_TIMEOUT_MS)
    const records = new KubernetesReplicaRecords({
      resources: world.api,
      namespace: config.namespace,
      role: 'controller',
      clock,
      deadlineMs: times.renewEveryMs,
      onStoreRestored: onSetBack,
    })
    this.#coordinator = new ShardCoordinator({
      name: config.replica,
      isNameExclusive: config.isReplicaGiven,
      session: this.session,
      shards: SHARD_COUNT,
      maxMembers: MAX_REPLICAS,
      times,
      records,
      epochs: this.epochs,
      work,
      clock,
      log: world.log,
      onReplaced,
    })
    this.#running = this.#coordinator.run(this.#gone.signal)
    return this.#coordinator.settled
  }

  /** Somebody else has claimed them: they are given up, and taken again if they are this replica's. */
  reclaim(shards: readonly number[]): void {
    this.#coordinator?.restart(shards)
  }

  /** Hands everything over. Resolves when nothing is under way, and the others know. */
  async leave(): Promise<void> {
    this.#coordinator?.leave()
    await this.#running
  }

  /** It says nothing to the others any more. */
  stopRenewing(): void {
    this.#gone.abort()
  }
}
