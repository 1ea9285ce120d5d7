import { MAX_REPLICAS } from '../../src/apis/core-kinds.ts'
import { SHARD_COUNT } from '../../src/ha/assignment.ts'
import { ShardCoordinator, type ShardWork } from '../../src/ha/coordinator.ts'
import { controllerLeaseKind, controllerLeases, deriveShardTimes } from '../../src/ha/replica-leases.ts'
import { DRAIN_TIMEOUT_MS } from '../../src/webhooks/delivery/engine.ts'
import { SYSTEM } from './engine-parts.ts'
import { ReplicaProcess, type ReplicaWorld } from './replica-process.ts'

export type CoordinatedReplicaOptions = {
  name: string
  session: string
  lowWater: number
  waitScale: number
  /** Called if a shard was given up although work was in progress, because that took too long. */
  givenUpAnyway: (replica: CoordinatedReplica) => void
}

const LEASE_MS = 9000
const TIMES = deriveShardTimes(LEASE_MS, DRAIN_TIMEOUT_MS)

const quiet = { info: () => undefined, warn: () => undefined, error: () => undefined }

/** One of several processes of the delivery engine on one store, with its shard coordinator and its Lease. */
export class CoordinatedReplica {
  readonly name: string
  readonly process: ReplicaProcess
  readonly #coordinator: ShardCoordinator
  readonly #gone = new AbortController()
  readonly #givenUpAnyway: (replica: CoordinatedReplica) => void
  /** Whether it was asked to end. */
  isLeaving = false
  /** Whether it was killed, and another process immediately restarts its work. */
  isReplaced = false
  /** Resolves when it has handed over everything, when another replica has its name, or when it was killed. */
  readonly left: Promise<void>

  constructor(world: ReplicaWorld, { name, givenUpAnyway, ...options }: CoordinatedReplicaOptions) {
    this.name = name
    this.#givenUpAnyway = givenUpAnyway
    // It owns no shards while it reads the existing objects.
    const kept = (): ShardCoordinator | undefined => this.#coordinator
    this.process = new ReplicaProcess(world, {
      ...options,
      ownership: {
        owns: (shard) => kept()?.owns(shard) ?? false,
        isAlone: (shard) => kept()?.isAlone(shard) ?? false,
        mayAct: () => kept()?.mayAct ?? false,
        claimedElsewhere: (shards) => kept()?.restart(shards),
        leaseSeen: (raw) => {
          const record = controllerLeaseKind(SYSTEM).decode(raw)
          if (raw.metadata.deletionTimestamp !== undefined) kept()?.hearRemoval()
          else if (record) kept()?.hear(record)
        },
      },
    })
    const { api, clock, epochs, session, complaints } = this.process
    this.#coordinator = new ShardCoordinator({
      name,
      isNameExclusive: true,
      session,
      shards: SHARD_COUNT,
      maxMembers: MAX_REPLICAS,
      times: TIMES,
      records: controllerLeases({
        resources: api,
        namespace: SYSTEM,
        clock,
        deadlineMs: TIMES.renewEveryMs,
        onStoreRestored: () => complaints.push('failed: the store is said to be older than it was'),
      }),
      epochs: epochs,
      work: this.#work(),
      clock,
      log: quiet,
      onReplaced: () => this.kill(),
    })
    this.left = this.#coordinator.run(this.#gone.signal)
  }

  /** Whether its lease is valid. */
  get mayAct(): boolean {
    return this.#coordinator.mayAct
  }

  /** Whether it runs with a lease that is valid and that it can check. */
  get isWell(): boolean {
    return this.process.runs && this.mayAct && !this.process.way.isCut
  }

  owns(shard: number): boolean {
    return this.process.runs && this.#coordinator.owns(shard)
  }

  kill(): void {
    this.process.kill()
    this.#gone.abort()
  }

  /** Ends it like a controller: it starts no new work, and hands over. */
  leave(): void {
    this.isLeaving = true
    this.process.parts.engine.stop()
    this.#coordinator.leave()
  }

  #work(): ShardWork {
    const { parts, clock } = this.process
    return {
      start: async (shards, signal) => void (await parts.takeOver.start(new Set(shards), signal)),
      confirm: (shards, signal) => parts.takeOver.confirm(new Set(shards), signal),
      owned: (shards) => parts.engine.wake(new Set(shards)),
      ownedAlone: (shards) => parts.engine.wake(new Set(shards)),
      stop: async (shard) => {
        const begun = clock.monotonic()
        await parts.takeOver.end(new Set([shard]))
        if (clock.monotonic() - begun >= DRAIN_TIMEOUT_MS) this.#givenUpAnyway(this)
      },
    }
  }
}
