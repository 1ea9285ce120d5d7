/** Records of the facade's replicas as Leases in the operator's namespace. */
import { API_ROLE, apiReplicaLease, ENDPOINTS_SEEN_ANNOTATION } from '../apis/facade-lease.ts'
import { leases, MAX_LEASES, REPLICA_LABEL } from '../apis/leases.ts'
import { ApiError, type RawObject, type ResourceReader, type ResourceWriter } from '../kube/client.ts'
import type { Clock } from '../lib/ports-clock.ts'
import type { PeerRecord, PeerRecords, StoredPeerRecord } from './facade-records.ts'

export type PeerLeasesOptions = {
  resources: ResourceReader & ResourceWriter
  /** The operator's namespace. */
  namespace: string
  clock: Clock
}

const NAME_PREFIX = `davit-${API_ROLE}-`
const UNKNOWN_LEASE_MS = 60_000

export class PeerLeases implements PeerRecords {
  readonly #options: PeerLeasesOptions

  constructor(options: PeerLeasesOptions) {
    this.#options = options
  }

  async list(): Promise<StoredPeerRecord[]> {
    const { resources, namespace } = this.#options
    const labelSelector = `${REPLICA_LABEL}=${API_ROLE}`
    const page = await resources.list(leases, { namespace, labelSelector, limit: MAX_LEASES })
    if (page.continue)
      throw new ApiError('BadRequest', `There are more than ${MAX_LEASES} Leases of facades.`)
    return page.items.map(read)
  }

  async write(record: PeerRecord, over: string | undefined): Promise<string> {
    const { resources, namespace } = this.#options
    const name = NAME_PREFIX + record.name
    const lease = this.#leaseOf(record)
    const written =
      over === undefined
        ? await resources.create(leases, { ...lease, metadata: { ...lease.metadata, name, namespace } })
        : await resources.patch(
            leases,
            { namespace, name },
            { ...lease, metadata: { ...lease.metadata, resourceVersion: over } },
          )
    return String(written.metadata.resourceVersion)
  }

  async remove(name: string, version: string): Promise<void> {
    const { resources, namespace } = this.#options
    await resources.delete(leases, { namespace, name: NAME_PREFIX + name }, { resourceVersion: version })
  }

  #leaseOf({ session, seen, leaseMs }: PeerRecord) {
    return {
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      metadata: {
        labels: { [REPLICA_LABEL]: API_ROLE },
        annotations: { [ENDPOINTS_SEEN_ANNOTATION]: String(seen) },
      },
      spec: {
        holderIdentity: session,
        leaseDurationSeconds: Math.ceil(leaseMs / 1000),
        // The API server wants microseconds.
        renewTime: new Date(this.#options.clock.now()).toISOString().replace('Z', '000Z'),
      },
    }
  }
}

/** What somebody has spoilt says nothing of what was seen: its own replica writes it anew. */
function read(raw: RawObject): StoredPeerRecord {
  const version = String(raw.metadata.resourceVersion)
  const name = raw.metadata.name.startsWith(NAME_PREFIX)
    ? raw.metadata.name.slice(NAME_PREFIX.length)
    : raw.metadata.name
  const { data } = apiReplicaLease.safeParse(raw)
  if (!data) return { name, session: '', seen: 0, leaseMs: UNKNOWN_LEASE_MS, version }
  return {
    name,
    session: data.spec.holderIdentity,
    seen: data.metadata.annotations[ENDPOINTS_SEEN_ANNOTATION],
    leaseMs: data.spec.leaseDurationSeconds * 1000,
    version,
  }
}
