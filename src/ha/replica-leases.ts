import {
  DRAINING_ANNOTATION,
  leases,
  REPLICA_ANNOTATION,
  REPLICA_LABEL,
  replicaLease,
  VIEW_ANNOTATION,
} from '../apis/core-kinds.ts'
import { ApiError, type RawObject, type ResourceReader, type ResourceWriter } from '../kube/client.ts'
import type { WatchedKind } from '../kube/informer.ts'
import { microTime } from '../kube/recorder.ts'
import { type Clock, within } from '../lib/time.ts'
import { SHARD_COUNT } from './assignment.ts'

/**
 * The record in which each controller replica tells the others which replicas it gives shards to, and how it is kept in a Lease.
 * README.md explains the protocol.
 */

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
  /** Renewed later than this, its shards may have another owner already: it asks the log. Shorter than the lease as well. */
  keepsMs: number
  renewEveryMs: number
  /** Before the next try after a failed call. */
  retryEveryMs: number
  /** Work in progress ends within this time. */
  drainMs: number
}

const RETRY_EVERY_MS = 300

export function deriveShardTimes(leaseMs: number, drainMs: number): ShardTimes {
  return {
    leaseMs,
    // The rest is for clocks that run at different rates, and for calls.
    holdsMs: (leaseMs * 2) / 3,
    keepsMs: (leaseMs * 5) / 6,
    renewEveryMs: (leaseMs * 2) / 9,
    retryEveryMs: RETRY_EVERY_MS,
    drainMs,
  }
}

const CONTROLLER_ROLE = 'controller'
const UNKNOWN_LEASE_MS = 60_000

/** For an informer of the records of all controllers. */
export function controllerLeaseKind(namespace: string): WatchedKind<StoredRecord> {
  return {
    type: leases,
    query: { namespace, labelSelector: `${REPLICA_LABEL}=${CONTROLLER_ROLE}` },
    decode: (raw) => ({ ...read(raw), version: String(raw.metadata.resourceVersion) }),
  }
}

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

/** The Leases of the replicas of one role, as records with a version. Both roles use it: controllers and REST servers. */

/** What the record of every replica says. */
export type LeaseRecord = {
  /** The replica's name. One process has it at a time; the next one with the name takes the record over. */
  name: string
  /** Names this start of the replica. */
  session: string
  /** How long the record counts without being renewed, in milliseconds. */
  leaseMs: number
}

/** @template R the record of a role */
export type Stored<R> = R & {
  /** Changes with every write. */
  version: string
}

export interface LeaseRecords<R extends LeaseRecord> {
  /** Reads every record consistently, as of a moment after the call. @throws ApiError */
  list(): Promise<Stored<R>[]>
  /**
   * Writes the record and renews it. @param over the version that it replaces; undefined creates the record
   * @returns the new version. @throws ApiError `Conflict`, `AlreadyExists` or `NotFound` when the stored version is another one;
   * after `Unavailable` and the like it may have been written
   */
  write(record: R, over: string | undefined): Promise<string>
  /** @throws ApiError `Conflict`, `NotFound` */
  remove(name: string, version: string): Promise<void>
}

/** How the record of a role is kept in a Lease. */
export type LeaseFormat<R extends LeaseRecord> = {
  role: string
  annotations(record: R): Record<string, string>
  /** Must not throw: a person may have edited the Lease, and its replica will write it again. */
  read(raw: RawObject): R
  page: { limit: number; max: number }
  /** For the error when there are more. */
  plural: string
}

export type ReplicaLeasesOptions = {
  resources: ResourceReader & ResourceWriter
  /** Davit's own namespace. */
  namespace: string
  clock: Clock
  /** Gives up waiting for a response after this: a dead connection must not cost the Lease. Default: never. */
  deadlineMs?: number
  /** Called when the store is older than what was read of it: it was restored from a backup. */
  onStoreRestored?: () => void
}

export class ReplicaLeases<R extends LeaseRecord> implements LeaseRecords<R> {
  readonly #format: LeaseFormat<R>
  readonly #options: ReplicaLeasesOptions
  /** The highest version that the store has responded with. */
  #highest = 0
  /** The version of each Lease that was written or read last, by its name. */
  #versions = new Map<string, number>()

  constructor(format: LeaseFormat<R>, options: ReplicaLeasesOptions) {
    this.#format = format
    this.#options = options
  }

  async list(): Promise<Stored<R>[]> {
    const { resources, namespace } = this.#options
    const { role, read, page, plural } = this.#format
    const query = { namespace, labelSelector: `${REPLICA_LABEL}=${role}`, limit: page.limit }
    const found: RawObject[] = []
    let from: string | undefined
    const before = this.#highest
    for (let n = 0; n < page.max; n += 1) {
      const {
        items,
        continue: next,
        resourceVersion,
      } = await this.#inTime(resources.list(leases, query, from))
      this.#noteListVersion(resourceVersion, before)
      found.push(...items)
      if (next === undefined) {
        this.#noteVersions(found)
        return found.map((raw) => ({ ...read(raw), version: String(raw.metadata.resourceVersion) }))
      }
      from = next
    }
    throw new ApiError('BadRequest', `found more than ${page.limit * page.max} Leases of ${plural}`)
  }

  async write(record: R, over: string | undefined): Promise<string> {
    const { resources, namespace } = this.#options
    const ref = { namespace, name: leaseName(this.#format.role, record.name) }
    const { metadata, ...rest } = this.#leaseOf(record)
    const written = await this.#inTime(
      over === undefined
        ? resources.create(leases, { ...rest, metadata: { ...metadata, ...ref } })
        : resources.patch(leases, ref, { ...rest, metadata: { ...metadata, resourceVersion: over } }),
    )
    const version = String(written.metadata.resourceVersion)
    this.#highest = Math.max(this.#highest, Number(version) || 0)
    this.#versions.set(ref.name, Number(version))
    return version
  }

  async remove(name: string, version: string): Promise<void> {
    const { resources, namespace } = this.#options
    const ref = { namespace, name: leaseName(this.#format.role, name) }
    await this.#inTime(resources.delete(leases, ref, { resourceVersion: version }))
  }

  /** @param before the highest version when the list was requested: no list of the same store can be older */
  #noteListVersion(resourceVersion: string, before: number): void {
    const version = Number(resourceVersion)
    if (Number.isNaN(version)) return
    if (version < before) this.#options.onStoreRestored?.()
    this.#highest = version < before ? version : Math.max(this.#highest, version)
  }

  /** A restored store may be ahead of what was read before the restore, but only there does the version of a Lease go back. */
  #noteVersions(found: readonly RawObject[]): void {
    const before = this.#versions
    this.#versions = new Map(found.map(({ metadata }) => [metadata.name, Number(metadata.resourceVersion)]))
    const wentBack = [...this.#versions].some(([name, version]) => version < (before.get(name) ?? 0))
    if (wentBack) this.#options.onStoreRestored?.()
  }

  /** @throws ApiError `Unavailable` when the call takes too long; it may still take effect */
  async #inTime<T>(call: Promise<T>): Promise<T> {
    const { clock, deadlineMs } = this.#options
    if (deadlineMs === undefined) return await call
    return await within(
      clock,
      deadlineMs,
      call,
      () => new ApiError('Unavailable', `a Lease request took longer than ${deadlineMs} ms`),
    )
  }

  #leaseOf(record: R) {
    return {
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      metadata: {
        labels: { [REPLICA_LABEL]: this.#format.role },
        annotations: this.#format.annotations(record),
      },
      spec: {
        holderIdentity: record.session,
        leaseDurationSeconds: Math.ceil(record.leaseMs / 1000),
        renewTime: microTime(this.#options.clock.now()),
      },
    }
  }
}

export function leaseName(role: string, replica: string): string {
  return `davit-${role}-${replica}`
}
