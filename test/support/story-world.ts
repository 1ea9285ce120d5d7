/** Worlds in which handoff histories are played. */
import type { FakeClock } from './fake-clock.ts'
import type { ReplicaProcess } from './replica-process.ts'
import type { SharedStore } from './shared-store.ts'

/** One of several processes of the delivery engine, with its shard ownership. */
export type StoryReplica = {
  readonly process: ReplicaProcess
  /** Whether it was killed, and another process immediately restarts its work. */
  readonly isReplaced?: boolean
}

/** A world of replicas, and the faults that can happen to them. */
export type StoryWorld<R extends StoryReplica> = {
  readonly clock: FakeClock
  readonly shared: SharedStore
  readonly chance: () => number
  /** Replicas that a fault can hit. */
  readonly running: readonly R[]
  readonly living: readonly R[]
  /** Whether each shard has its owner, and nothing is in progress. */
  readonly isSettled: boolean
  /** Scale of the waits between attempts. */
  readonly waitScale: number
  /** Time after the last trouble within which each shard has its owner. */
  readonly calmMs: number
  /** Descriptions of observed violations. */
  readonly violations?: readonly string[]
  /** Called for a replica that has given up shards with work in progress. */
  onGivenUpAnyway: (replica: R) => void
  /** Called for a replica whose lease has ended while it ran. */
  onLapse: (replica: R) => void
  join(): Promise<R>
  kill(replica: R): Promise<void>
  stop(replica: R, ms: number): void
  cut(replica: R, ms: number): void
  lose(replica: R, ms: number): void
  /** Moves these shards to a replica. Absent: replicas decide among themselves. */
  move?(shards: readonly number[], to: R): void
  restart?(replica: R): void
  leave?(replica: R): Promise<void>
  /** Owners of a shard; absent: a test decides. */
  ownersOf?(shard: number): readonly R[]
}
