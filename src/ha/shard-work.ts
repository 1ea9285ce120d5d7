/** What a keeper of shards is given: times, records, and the work that is to be begun and ended. */
import type { Clock } from '../lib/ports-clock.ts'
import type { Logger } from '../lib/ports-log.ts'
import type { OwnershipEpochs } from './ownership.ts'
import type { ReplicaRecord, ReplicaRecords } from './ports-replica-records.ts'

/** Milliseconds. */
export type ShardTimes = {
  /** The others take this replica out of their views when its record was not renewed for so long. */
  leaseMs: number
  /** It stops beginning anything this long after a renewal. Shorter than the lease by what clocks may differ in their rate. */
  holdsMs: number
  renewEveryMs: number
  /** While a shard changes hands. */
  handoffEveryMs: number
  /** What was begun ends within. */
  drainMs: number
}

export type ShardWork = {
  /** Gets ready to work on them; when it resolves they are owned. Rejects when that cannot be done now: tried again. */
  start(shards: readonly number[], signal: AbortSignal): Promise<void>
  /** They are owned from now on, or again after the lease could not be renewed for a while. */
  owned(shards: readonly number[]): void
  /** It is owned no longer; resolves when nothing of it is under way. */
  stop(shard: number): Promise<void>
}

export type ShardCoordinatorOptions = {
  name: string
  /**
   * Whoever had the name before is dead when a process has it. False: nobody has promised that, so what another process
   * has left under the name is waited for as for any neighbour.
   */
  isNameExclusive: boolean
  /** Of this start; no other one has it. */
  session: string
  /** How many there are. */
  shards: number
  /** Replicas that shards are given to; more stand by. */
  maxMembers: number
  times: ShardTimes
  records: ReplicaRecords
  /** Told which shards are held, and since which start. */
  epochs: OwnershipEpochs
  work: ShardWork
  clock: Clock
  log: Logger
  /** Another process has this replica's name: this one may do nothing more. */
  onReplaced: () => void
}

/** Session of a record that somebody has spoilt. */
export const UNKNOWN_SESSION = ''

/** It claims nothing: it comes, or has left. */
export function claimsNothing({ view, draining }: ReplicaRecord): boolean {
  return view.length === 0 && draining.length === 0
}
