/** Records of replicas as Leases in the operator's namespace. */
import {
  DRAINING_ANNOTATION,
  leases,
  REPLICA_ANNOTATION,
  REPLICA_LABEL,
  replicaLease,
  VIEW_ANNOTATION,
} from '../apis/leases.ts'
import { ApiError, type RawObject, type ResourceReader, type ResourceWriter } from '../kube/client.ts'
import type { Clock } from '../lib/ports-clock.ts'
import type { ReplicaRecord, ReplicaRecords, StoredRecord } from './ports-replica-records.ts'
import { SHARD_COUNT } from './shard.ts'
import { UNKNOWN_SESSION } from './shard-work.ts'

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
    const late = Promise.withResolvers<never>()
    const stop = clock.after(deadlineMs, () =>
      late.reject(new ApiError('Unavailable', `a call about a Lease took longer than ${deadlineMs} ms`)),
    )
    try {
      return await Promise.race([call, late.promise])
    } finally {
      stop()
    }
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
