/** This replica among the others: its Lease, its shards, and what it may do. ha/README.md explains the protocol. */

import { MAX_REPLICAS } from '../apis/core-kinds.ts'
import { SHARD_COUNT } from '../ha/assignment.ts'
import { ShardCoordinator, type ShardWork } from '../ha/coordinator.ts'
import { OwnershipEpochs, type ShardOwnership } from '../ha/ownership.ts'
import {
  controllerLeaseKind,
  controllerLeases,
  deriveShardTimes,
  type StoredRecord,
} from '../ha/replica-leases.ts'
import { Informer } from '../kube/informer.ts'
import type { Clock } from '../lib/time.ts'
import { DRAIN_TIMEOUT_MS } from '../webhooks/delivery/engine.ts'
import type { Config } from './config.ts'
import type { ControllerDependencies } from './dependencies.ts'

export type ReplicaOptions = {
  config: Pick<Config, 'namespace' | 'replica' | 'isReplicaGiven' | 'leaseMs'>
  dependencies: Pick<ControllerDependencies, 'api' | 'log' | 'random' | 'metrics'>
  /** The machine's clock: Leases need a time that all replicas share. */
  clock: Clock
  onReplaced: () => void
  /** Called when the store is older than what was read of it. */
  onStoreRestored: () => void
}

export class Replica implements ShardOwnership {
  /** Names this start of the replica. */
  readonly session: string
  readonly epochs = new OwnershipEpochs()
  readonly #options: ReplicaOptions
  #coordinator: ShardCoordinator | undefined
  #running: Promise<void> = Promise.resolve()
  readonly #gone = new AbortController()
  #watch: Pick<Informer<unknown>, 'stop'> | undefined

  constructor(options: ReplicaOptions) {
    this.#options = options
    const { config, dependencies } = options
    this.session = `${config.replica}.${Buffer.from(dependencies.random.bytes(6)).toString('hex')}`
  }

  owns(shard: number): boolean {
    return this.#coordinator?.owns(shard) ?? false
  }

  isAlone(shard: number): boolean {
    return this.#coordinator?.isAlone(shard) ?? false
  }

  get ownedShardCount(): number {
    return this.#coordinator?.owned ?? 0
  }

  /** Milliseconds since its Lease was renewed; Infinity before it has one. */
  get leaseAgeMs(): number {
    return this.#coordinator?.leaseAgeMs ?? Number.POSITIVE_INFINITY
  }

  /** No other replica considers it dead. */
  get mayAct(): boolean {
    return this.#coordinator?.mayAct ?? false
  }

  /** Whether the code that runs now may write: the shard that it runs for was never given up since it started. */
  get mayWrite(): boolean {
    return this.mayAct && this.epochs.mayWrite
  }

  /** @returns a check whether the shard is still owned as it is now, so that writes for it are allowed */
  ownershipCheck(shard: number): () => boolean {
    const epoch = this.epochs.current(shard)
    return () => this.mayAct && epoch.state === 'valid'
  }

  /** It waits for another process that has its name, or had it until a moment ago. */
  get isNameTaken(): boolean {
    return this.#coordinator?.isNameTaken ?? false
  }

  /** Resolves when it works on all of its shards. @param work must be ready to be called */
  join(work: ShardWork): Promise<void> {
    const { config, dependencies, clock, onReplaced, onStoreRestored } = this.#options
    const times = deriveShardTimes(config.leaseMs, DRAIN_TIMEOUT_MS)
    this.#coordinator = new ShardCoordinator({
      name: config.replica,
      isNameExclusive: config.isReplicaGiven,
      session: this.session,
      shards: SHARD_COUNT,
      maxMembers: MAX_REPLICAS,
      times,
      records: controllerLeases({
        resources: dependencies.api,
        namespace: config.namespace,
        clock,
        deadlineMs: times.renewEveryMs,
        onStoreRestored,
      }),
      epochs: this.epochs,
      work,
      clock,
      log: dependencies.log,
      onReplaced,
    })
    this.#watch = this.#watchLeases(this.#coordinator)
    this.#running = this.#coordinator.run(this.#gone.signal)
    return this.#coordinator.settled
  }

  /** Without it the coordinator would notice a change of another replica only at its next renewal. */
  #watchLeases(coordinator: ShardCoordinator): Informer<unknown> {
    const { config, dependencies, clock } = this.#options
    const handler = {
      applied: (record: StoredRecord) => coordinator.hear(record),
      deleted: () => coordinator.hearRemoval(),
    }
    const watch = new Informer(
      { ...controllerLeaseKind(config.namespace), handler },
      { ...dependencies, clock },
    )
    watch.start()
    return watch
  }

  /** Another replica has claimed these shards: releases them, and takes those back that are this replica's. */
  reclaim(shards: readonly number[]): void {
    this.#coordinator?.restart(shards)
  }

  /** Hands all shards over. Resolves when nothing is in progress and the others know. */
  async leave(): Promise<void> {
    this.#coordinator?.leave()
    await this.#running
  }

  stopRenewing(): void {
    this.#gone.abort()
    void this.#watch?.stop()
  }
}
