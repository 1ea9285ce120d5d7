/**
 * The record in which each controller replica tells the others which replicas it gives shards to, and how it is kept in a Lease.
 * README.md explains the protocol.
 */
import { DRAINING_ANNOTATION, REPLICA_ANNOTATION, replicaLease, VIEW_ANNOTATION } from '../apis/leases.ts'
import type { RawObject } from '../kube/client.ts'
import { SHARD_COUNT } from './assignment.ts'
import {
  type LeaseRecord,
  type LeaseRecords,
  leaseName,
  ReplicaLeases,
  type ReplicaLeasesOptions,
  type Stored,
} from './replica-leases.ts'

export type ReplicaRecord = LeaseRecord & {
  /** The replicas that it gives shards to, sorted; it is one of them unless it is leaving. */
  view: readonly string[]
  /** Shards that it gave up and for which attempts or writes are still in progress. */
  draining: readonly number[]
}

export type StoredRecord = Stored<ReplicaRecord>
export type ReplicaRecords = LeaseRecords<ReplicaRecord>

/** The session of a record that cannot be read. */
export const UNKNOWN_SESSION = ''

/** The replica is joining or has left. */
export function claimsNothing({ view, draining }: ReplicaRecord): boolean {
  return view.length === 0 && draining.length === 0
}

/** Milliseconds. */
export type ShardTimes = {
  /** The others take this replica out of their views when its record was not renewed for this long. */
  leaseMs: number
  /** This replica starts nothing this long after a renewal. Shorter than the lease, since clocks run at different rates. */
  holdsMs: number
  renewEveryMs: number
  /** Between two looks while a shard changes hands. */
  handoffEveryMs: number
  /** Work in progress ends within this time. */
  drainMs: number
}

const HANDOFF_EVERY_MS = 300

export function deriveShardTimes(leaseMs: number, drainMs: number): ShardTimes {
  return {
    leaseMs,
    // The rest is for clocks that run at different rates, and for calls.
    holdsMs: (leaseMs * 2) / 3,
    renewEveryMs: (leaseMs * 2) / 9,
    handoffEveryMs: HANDOFF_EVERY_MS,
    drainMs,
  }
}

const CONTROLLER_ROLE = 'controller'
const UNKNOWN_LEASE_MS = 60_000

/** The Leases of controllers. The pages have room for standby replicas and for what dead ones left. */
export function controllerLeases(options: ReplicaLeasesOptions): ReplicaLeases<ReplicaRecord> {
  return new ReplicaLeases<ReplicaRecord>(
    {
      role: CONTROLLER_ROLE,
      annotations: ({ name, view, draining }) => ({
        [REPLICA_ANNOTATION]: name,
        [VIEW_ANNOTATION]: view.join(),
        [DRAINING_ANNOTATION]: draining.join(),
      }),
      read,
      page: { limit: 250, max: 8 },
      plural: 'replicas',
    },
    options,
  )
}

/** A Lease that cannot be read may stand for any claim. */
function read(raw: RawObject): ReplicaRecord {
  const { data } = replicaLease.safeParse(raw)
  if (!data) {
    const name = raw.metadata.name.slice(leaseName(CONTROLLER_ROLE, '').length)
    const draining = Array.from({ length: SHARD_COUNT }, (_, shard) => shard)
    return { name, session: UNKNOWN_SESSION, view: [], draining, leaseMs: UNKNOWN_LEASE_MS }
  }
  const { annotations } = data.metadata
  return {
    name: annotations[REPLICA_ANNOTATION],
    session: data.spec.holderIdentity,
    view: annotations[VIEW_ANNOTATION],
    draining: annotations[DRAINING_ANNOTATION],
    leaseMs: data.spec.leaseDurationSeconds * 1000,
  }
}
