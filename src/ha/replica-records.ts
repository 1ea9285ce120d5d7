import {
  DRAINING_ANNOTATION,
  leases,
  REPLICA_ANNOTATION,
  REPLICA_LABEL,
  replicaLease,
  VIEW_ANNOTATION,
} from '../apis/leases.ts'
import { ApiError, type RawObject, type ResourceReader, type ResourceWriter } from '../kube/client.ts'
import type { Clock } from '../lib/clock.ts'
import type { Logger } from '../lib/log.ts'
import { within } from '../lib/sleep.ts'
import { SHARD_COUNT } from './assignment.ts'
import type { OwnershipEpochs } from './ownership.ts'

/** What replicas tell each other, each in a record of its own. */

export type ReplicaRecord = {
  /** The replica's name, of which there is one at a time: whoever starts under it anew takes its record over. */
  name: string
  /** Of this start of it. */
  session: string
  /** The replicas that it gives shards to, itself among them unless it is leaving. In order. */
  view: readonly string[]
  /** Shards that it no longer works on, but for attempts and records that have not ended. */
  draining: readonly number[]
  /** How long the record counts without being renewed, in milliseconds. */
  leaseMs: number
}

export type StoredRecord = ReplicaRecord & {
  /** Another one with every write. */
  version: string
}

export interface ReplicaRecords {
  /** Every record, as of a moment after the call: a consistent read. @throws ApiError */
  list(): Promise<StoredRecord[]>
  /**
   * Writes the record and renews it. @param over the version that it replaces; absent: there is none
   * @returns the new version. @throws ApiError `Conflict`, `AlreadyExists`, `NotFound`: it is not as said. `Unavailable` and
   * the like: it may have been written
   */
  write(record: ReplicaRecord, over: string | undefined): Promise<string>
  /** @throws ApiError `Conflict`, `NotFound` */
  remove(name: string, version: string): Promise<void>
}

/** What a keeper of shards is given: times, records, and the work that is to be begun and ended. */

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

const HANDOFF_EVERY_MS = 300

/**
 * @param leaseMs after which a replica that is not heard of is taken for gone
 * @param drainMs what was begun ends within
 */
export function deriveShardTimes(leaseMs: number, drainMs: number): ShardTimes {
  return {
    leaseMs,
    // Clocks may differ in their rate, and calls take their time.
    holdsMs: (leaseMs * 2) / 3,
    renewEveryMs: (leaseMs * 2) / 9,
    handoffEveryMs: HANDOFF_EVERY_MS,
    drainMs,
  }
}

/** Records of replicas as Leases in the operator's namespace. */

export type KubernetesReplicaRecordsOptions = {
  resources: ResourceReader & ResourceWriter
  /** The operator's namespace. */
  namespace: string
  /** Of which role they are; each has its own. */
  role: string
  clock: Clock
  /** An answer that takes longer is not waited for: a dead connection must not cost the Lease. */
  deadlineMs: number
  /** Told that the store is older than what was read of it: it was restored from a backup. */
  onStoreRestored?: () => void
}

export class KubernetesReplicaRecords implements ReplicaRecords {
  readonly #options: KubernetesReplicaRecordsOptions
  /** The highest version that the store has answered with. */
  #highest = 0
  /** Of each Lease that there is, by its name, the version that was written or read last. */
  #versions = new Map<string, number>()

  constructor(options: KubernetesReplicaRecordsOptions) {
    this.#options = options
  }

  async list(): Promise<StoredRecord[]> {
    const { resources, namespace, role } = this.#options
    const query = { namespace, labelSelector: `${REPLICA_LABEL}=${role}`, limit: PAGE }
    const found: RawObject[] = []
    let from: string | undefined
    const before = this.#highest
    for (let page = 0; page < MAX_PAGES; page += 1) {
      const {
        items,
        continue: next,
        resourceVersion,
      } = await this.#inTime(resources.list(leases, query, from))
      this.#seen(resourceVersion, before)
      found.push(...items)
      if (next === undefined) {
        this.#compare(found)
        return found.map((raw) => this.#read(raw))
      }
      from = next
    }
    throw new ApiError('BadRequest', `There are more than ${PAGE * MAX_PAGES} Leases of replicas.`)
  }

  async write(record: ReplicaRecord, over: string | undefined): Promise<string> {
    const { resources, namespace } = this.#options
    const name = this.#nameOf(record.name)
    const lease = this.#leaseOf(record)
    const written = await this.#inTime(
      over === undefined
        ? resources.create(leases, { ...lease, metadata: { ...lease.metadata, name, namespace } })
        : resources.patch(leases, { namespace, name }, withVersion(lease, over)),
    )
    const version = String(written.metadata.resourceVersion)
    this.#highest = Math.max(this.#highest, Number(version) || 0)
    this.#versions.set(name, Number(version))
    return version
  }

  async remove(name: string, version: string): Promise<void> {
    const { resources, namespace } = this.#options
    const ref = { namespace, name: this.#nameOf(name) }
    await this.#inTime(resources.delete(leases, ref, { resourceVersion: version }))
  }

  /** @param before what was the highest when it was asked: no list of the same store can be older */
  #seen(resourceVersion: string, before: number): void {
    const version = Number(resourceVersion)
    if (Number.isNaN(version)) return
    if (version < before) this.#options.onStoreRestored?.()
    this.#highest = version < before ? version : Math.max(this.#highest, version)
  }

  /** A store that was restored may have come further since than what was read of the one before, but no Lease in it goes back. */
  #compare(found: readonly RawObject[]): void {
    const before = this.#versions
    this.#versions = new Map(found.map(({ metadata }) => [metadata.name, Number(metadata.resourceVersion)]))
    const wentBack = [...this.#versions].some(([name, version]) => version < (before.get(name) ?? 0))
    if (wentBack) this.#options.onStoreRestored?.()
  }

  /** @throws ApiError `Unavailable` when it takes too long; it may be done all the same */
  async #inTime<T>(call: Promise<T>): Promise<T> {
    const { clock, deadlineMs } = this.#options
    return await within(
      clock,
      deadlineMs,
      call,
      () => new ApiError('Unavailable', `a call about a Lease took longer than ${deadlineMs} ms`),
    )
  }

  #nameOf(replica: string): string {
    return `davit-${this.#options.role}-${replica}`
  }

  #leaseOf({ name, session, view, draining, leaseMs }: ReplicaRecord) {
    const { role, clock } = this.#options
    return {
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      metadata: {
        labels: { [REPLICA_LABEL]: role },
        annotations: {
          [REPLICA_ANNOTATION]: name,
          [VIEW_ANNOTATION]: view.join(),
          [DRAINING_ANNOTATION]: draining.join(),
        },
      },
      spec: {
        holderIdentity: session,
        leaseDurationSeconds: Math.ceil(leaseMs / 1000),
        renewTime: microTime(clock.now()),
      },
    }
  }

  /** What somebody has spoilt may stand for any claim: its own replica writes it anew. */
  #read(raw: RawObject): StoredRecord {
    const version = String(raw.metadata.resourceVersion)
    const { data } = replicaLease.safeParse(raw)
    if (!data) return { ...this.#unknown(raw.metadata.name), version }
    const { annotations } = data.metadata
    return {
      name: annotations[REPLICA_ANNOTATION],
      session: data.spec.holderIdentity,
      view: annotations[VIEW_ANNOTATION],
      draining: annotations[DRAINING_ANNOTATION],
      leaseMs: data.spec.leaseDurationSeconds * 1000,
      version,
    }
  }

  #unknown(leaseName: string): ReplicaRecord {
    const name = leaseName.slice(this.#nameOf('').length)
    const draining = Array.from({ length: SHARD_COUNT }, (_, shard) => shard)
    return { name, session: UNKNOWN_SESSION, view: [], draining, leaseMs: UNKNOWN_LEASE_MS }
  }
}

/** Those that stand by, and what dead ones have left, are listed as well. */
const PAGE = 250
const MAX_PAGES = 8

const UNKNOWN_LEASE_MS = 60_000

function withVersion<T extends { metadata: object }>(lease: T, resourceVersion: string) {
  return { ...lease, metadata: { ...lease.metadata, resourceVersion } }
}

/** The API server wants microseconds. */
function microTime(ms: number): string {
  return new Date(ms).toISOString().replace('Z', '000Z')
}
