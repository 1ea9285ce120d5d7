/** Where histories of hand-overs are played. */
import type { FakeClock } from './fake-clock.ts'
import type { ReplicaProcess } from './replica-process.ts'
import type { SharedStore } from './shared-store.ts'

/** One of several processes of the delivery engine, and what keeps its shards. */
export type StoryReplica = {
  readonly process: ReplicaProcess
  /** It was killed, and another process begins at once what it had under way. */
  readonly isReplaced?: boolean
}

/** Where replicas are, and what can happen to them. */
export type StoryWorld<R extends StoryReplica> = {
  readonly clock: FakeClock
  readonly shared: SharedStore
  readonly chance: () => number
  /** Those that something can happen to. */
  readonly running: readonly R[]
  readonly living: readonly R[]
  /** Whether each shard has its owner, and nothing is on its way. */
  readonly isSettled: boolean
  /** Of the waits between attempts. */
  readonly waitScale: number
  /** After the last trouble each shard has its owner within. */
  readonly calmMs: number
  /** What was seen that must not be, in words. */
  readonly violations?: readonly string[]
  /** Told of one that has given up shards with something under way. */
  onGivenUpAnyway: (replica: R) => void
  /** Told of one whose lease has ended while it ran. */
  onLapse: (replica: R) => void
  join(): Promise<R>
  kill(replica: R): Promise<void>
  stop(replica: R, ms: number): void
  cut(replica: R, ms: number): void
  lose(replica: R, ms: number): void
  /** These shards are to be this replica's. Absent: replicas decide that among themselves. */
  move?(shards: readonly number[], to: R): void
  restart?(replica: R): void
  leave?(replica: R): Promise<void>
  /** Who drives a shard; absent: a test says that. */
  ownersOf?(shard: number): readonly R[]
}
