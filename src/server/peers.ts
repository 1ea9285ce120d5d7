import {
  API_ROLE,
  apiReplicaLease,
  ENDPOINTS_SEEN_ANNOTATION,
  leases,
  MAX_LEASES,
  REPLICA_LABEL,
} from '../apis/leases.ts'
import { LeaseValidity } from '../ha/lease.ts'
import {
  ApiError,
  isApiError,
  type RawObject,
  type ResourceReader,
  type ResourceWriter,
} from '../kube/client.ts'
import type { Watch } from '../kube/watch-health.ts'
import type { Clock } from '../lib/clock.ts'
import type { Logger } from '../lib/log.ts'
import { InterruptibleSleep, sleep } from '../lib/sleep.ts'

/** What replicas of the facade tell each other, each in a record of its own. */

export type PeerRecord = {
  /** The replica's name, of which there is one at a time. */
  name: string
  /** Of this start of it. */
  session: string
  /** Every change of an endpoint up to this version is known to it. */
  seen: number
  /** How long the record counts without being renewed, in milliseconds. */
  leaseMs: number
}

export type StoredPeerRecord = PeerRecord & {
  /** Another one with every write. */
  version: string
}

export interface PeerRecords {
  /** Every record, as of a moment after the call: a consistent read. @throws ApiError */
  list(): Promise<StoredPeerRecord[]>
  /**
   * Writes the record and renews it. @param over the version that it replaces; absent: there is none
   * @returns the new version. @throws ApiError `Conflict`, `AlreadyExists`, `NotFound`: it is not as said. `Unavailable` and
   * the like: it may have been written
   */
  write(record: PeerRecord, over: string | undefined): Promise<string>
  /** @throws ApiError `Conflict`, `NotFound` */
  remove(name: string, version: string): Promise<void>
}

/** Records of the facade's replicas as Leases in the operator's namespace. */

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

/**
 * This replica of the facade among the others: its Lease says that it lives and what it has seen of endpoints. Others wait
 * for it with every change of an endpoint, until its lease has ended; so it publishes only while it is waited for, and only
 * on what it has read since they began to.
 */

export type ReplicaHeartbeatOptions = {
  name: string
  /** Of this start of it. */
  session: string
  leaseMs: number
  records: PeerRecords
  /** Of endpoints. */
  watch: Pick<Watch, 'version' | 'isListed'>
  /** Begins to read endpoints, or begins anew: at once nothing counts as read any more. */
  read: () => void
  /** Why it may not be known which endpoints there are, in words; undefined while it is. */
  behind: () => string | undefined
  clock: Clock
  log: Logger
}

/** No more than ten writes a second. */
const BETWEEN_WRITES_MS = 100
const AGAIN_MS = 500
const LEAVE_WITHIN_MS = 2000

export class ReplicaHeartbeat {
  readonly #options: ReplicaHeartbeatOptions
  readonly #lease: LeaseValidity
  readonly #pause: InterruptibleSleep
  readonly #stopping = new AbortController()
  #running: Promise<void> = Promise.resolve()
  /** Version of the own record, as far as it is known. */
  #stored: string | undefined
  /** A write ended without an answer, or was told that the record is another one. */
  #isInDoubt = true
  /** There is something to tell. */
  #isNews = true
  #wasRead = false
  /** What is read of endpoints was asked for when others waited for this replica already. */
  #hasJoined = false
  #isWithdrawn = false
  #replaced = false
  #isFailing = false
  /** Since when endpoints could not be followed, monotonic. */
  #behindSince: number | undefined

  constructor(options: ReplicaHeartbeatOptions) {
    const { clock, leaseMs } = options
    this.#options = options
    // Clocks may differ in their rate, and calls take their time.
    this.#lease = new LeaseValidity(clock, (leaseMs * 2) / 3)
    this.#pause = new InterruptibleSleep(clock)
  }

  start(): void {
    this.#running = this.#run(this.#stopping.signal)
  }

  /** Something was seen that others may wait for. */
  changed(): void {
    this.#isNews = true
    this.#pause.wake()
  }

  /** Whether the others wait for what this replica has not seen. */
  get isWaitedFor(): boolean {
    return !this.#replaced && this.#lease.isValid
  }

  /** Milliseconds since its lease was renewed. */
  get leaseAgeMs(): number {
    return this.#lease.ageMs
  }

  /** Why nothing may be decided on what is known of endpoints, in words; undefined while it may. */
  get problem(): string | undefined {
    if (this.#replaced) return `another process has the name ${this.#options.name}`
    if (!this.#lease.isValid) return 'its Lease could not be renewed'
    if (!this.#hasJoined || !this.#options.watch.isListed) return 'endpoints are being read'
    return undefined
  }

  /** Nothing is published any more: nobody has to wait for this replica. */
  async leave(): Promise<void> {
    this.#stopping.abort()
    const { clock, log } = this.#options
    const over = new AbortController()
    const left = this.#running
      .then(() => this.#withdraw())
      .catch((error: unknown) => log.warn('The Lease of this facade stays until it has ended', { error }))
    await Promise.race([left, sleep(clock, LEAVE_WITHIN_MS, over.signal)])
    over.abort()
  }

  async #run(signal: AbortSignal): Promise<void> {
    const { leaseMs, behind, clock } = this.#options
    while (!signal.aborted && !this.#replaced) {
      await this.#round()
      await sleep(clock, this.#isFailing ? AGAIN_MS : BETWEEN_WRITES_MS, signal)
      // Until endpoints are read, and that was told, there is something to look after.
      if (this.#wasRead && behind() === undefined && !this.#isFailing)
        await this.#pause.sleep((leaseMs * 2) / 9 - BETWEEN_WRITES_MS, signal)
    }
  }

  async #round(): Promise<void> {
    try {
      if (this.#isBehindForLong()) await this.#withdraw()
      else if (this.#hasToWrite()) await this.#write()
      this.#isFailing = false
    } catch (error) {
      this.#isInDoubt = true
      this.#isNews = true
      if (!this.#isFailing) this.#options.log.warn('The Lease of this facade could not be written', { error })
      this.#isFailing = true
    }
  }

  /** It publishes nothing, so the others need not wait for it for as long as it goes on renewing. */
  #isBehindForLong(): boolean {
    const { clock, leaseMs, behind } = this.#options
    if (behind() === undefined) {
      this.#behindSince = undefined
      return false
    }
    // Nothing was asked for yet.
    if (!this.#hasJoined) return this.#isWithdrawn
    this.#behindSince ??= clock.monotonic()
    return clock.monotonic() - this.#behindSince >= leaseMs
  }

  #hasToWrite(): boolean {
    const { isListed } = this.#options.watch
    // A list has ended, which others may wait for.
    if (isListed && !this.#wasRead) this.#isNews = true
    this.#wasRead = isListed
    return this.#isNews || this.#lease.ageMs >= (this.#options.leaseMs * 2) / 9 - BETWEEN_WRITES_MS
  }

  async #write(): Promise<void> {
    const { name, session, leaseMs, records, watch, read } = this.#options
    if (this.#isInDoubt && !(await this.#find())) return
    this.#isNews = false
    const asked = this.#lease.moment()
    this.#isInDoubt = true
    const isNew = this.#stored === undefined
    this.#stored = await records.write({ name, session, leaseMs, seen: watch.version }, this.#stored)
    this.#isInDoubt = false
    // Somebody may have taken this replica for gone, and not have waited for it.
    if (isNew || !this.#lease.isValid) this.#hasJoined = false
    this.#lease.renewed(asked)
    if (this.#hasJoined) return
    read()
    this.#wasRead = false
    this.#behindSince = undefined
    this.#isWithdrawn = false
    this.#hasJoined = true
  }

  /** Looks for the own record. @returns false when it is another process's by now */
  async #find(): Promise<boolean> {
    const { name, session, records, log } = this.#options
    const own: StoredPeerRecord | undefined = (await records.list()).find((record) => record.name === name)
    const isOther = own !== undefined && own.session !== session
    // At the start it is the predecessor's, and taken over.
    if (isOther && this.#lease.ageMs !== Number.POSITIVE_INFINITY) {
      this.#replaced = true
      log.error('Another process has the name of this one, which publishes nothing any more', { name })
      return false
    }
    this.#stored = own?.version
    if (isOther) this.#hasJoined = false
    return true
  }

  async #withdraw(): Promise<void> {
    const { name, records } = this.#options
    this.#hasJoined = false
    this.#isWithdrawn = true
    if (this.#stored === undefined || this.#replaced) return
    const version = this.#stored
    this.#stored = undefined
    this.#isInDoubt = true
    this.#isNews = true
    try {
      await records.remove(name, version)
    } catch (error) {
      if (!isApiError(error, 'Conflict', 'NotFound')) throw error
    }
  }
}

/** Waits until every other replica of the facade that lives has seen a change: the rare writer waits, so that no publish has to. */

export type PeerServersOptions = {
  /** The replica's own name. */
  name: string
  leaseMs: number
  records: PeerRecords
  clock: Clock
  log: Logger
}

/** Times are monotonic milliseconds of this process. */
type Other = {
  record: StoredPeerRecord
  /** When this version was first seen: it was written before. */
  seenAt: number
}

type Waiter = {
  /** Undefined while it is not known which version has to be seen. */
  needed: () => number | undefined
  deadline: number
  end: (haveSeen: boolean) => void
}

const LOOK_EVERY_MS = 25
/** Beyond the lease, for the calls on the way. */
const MARGIN_MS = 2000
const TIDY_EVERY_MS = 60_000
/** A Lease that ended so long ago is nobody's any more. */
const KEPT_MS = 60_000

export class PeerServers {
  readonly #options: PeerServersOptions
  readonly #others = new Map<string, Other>()
  readonly #waiters = new Set<Waiter>()
  /** When the list that was taken last was asked for. */
  #asOf = Number.NEGATIVE_INFINITY
  #isLooking = false

  constructor(options: PeerServersOptions) {
    this.#options = options
  }

  /** Changes that wait. */
  get waiting(): number {
    return this.#waiters.size
  }

  /**
   * Resolves when whoever publishes from then on knows the change: all have seen it, or may not publish any more.
   * @returns false when that took longer than the lease of a dead one
   */
  haveSeen(needed: () => number | undefined): Promise<boolean> {
    const { clock, leaseMs } = this.#options
    return new Promise((resolve) => {
      const waiter: Waiter = {
        needed,
        deadline: clock.monotonic() + leaseMs + MARGIN_MS,
        end: (haveSeen) => {
          this.#waiters.delete(waiter)
          resolve(haveSeen)
        },
      }
      this.#waiters.add(waiter)
      if (!this.#isLooking) void this.#look()
    })
  }

  /** Takes away what crashed replicas have left, now and then. */
  async collectExpiredForever(signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#options
    for (;;) {
      await sleep(clock, TIDY_EVERY_MS, signal)
      if (signal.aborted) return
      try {
        await this.#tidy()
      } catch (error) {
        log.warn('Leases of facades that are gone stay for now', { error })
      }
    }
  }

  /** One reader for all that wait. */
  async #look(): Promise<void> {
    const { clock, log } = this.#options
    this.#isLooking = true
    let isFailing = false
    while (this.#waiters.size > 0) {
      try {
        await this.#answer([...this.#waiters])
      } catch (error) {
        if (!isFailing) log.warn('The Leases of other facades could not be read', { error })
        isFailing = true
      }
      const now = clock.monotonic()
      for (const waiter of [...this.#waiters]) if (now >= waiter.deadline) waiter.end(false)
      if (this.#waiters.size > 0) await sleep(clock, LOOK_EVERY_MS)
    }
    this.#isLooking = false
  }

  /** @param waiters whose changes were made before the list is asked for */
  async #answer(waiters: readonly Waiter[]): Promise<void> {
    await this.#read()
    for (const waiter of waiters) if (this.#isSeen(waiter.needed)) waiter.end(true)
  }

  async #read(): Promise<void> {
    const { name, records, clock } = this.#options
    const asked = clock.monotonic()
    const stored = await records.list()
    // Lists may overtake each other: an older one knows less.
    if (asked < this.#asOf) return
    this.#asOf = asked
    const now = clock.monotonic()
    const names = new Set(stored.map((record) => record.name))
    for (const gone of this.#others.keys()) if (!names.has(gone)) this.#others.delete(gone)
    for (const record of stored) {
      if (record.name === name) continue
      if (this.#others.get(record.name)?.record.version === record.version) continue
      this.#others.set(record.name, { record, seenAt: now })
    }
  }

  #isSeen(needed: Waiter['needed']): boolean {
    const living = [...this.#others.values()].filter((other) => !this.#hasExpired(other))
    if (living.length === 0) return true
    const version = needed()
    return version !== undefined && living.every(({ record }) => record.seen >= version)
  }

  #hasExpired({ record, seenAt }: Other, afterMs = 0): boolean {
    return this.#asOf - seenAt >= record.leaseMs + afterMs
  }

  async #tidy(): Promise<void> {
    const { records } = this.#options
    await this.#read()
    for (const other of [...this.#others.values()].filter((one) => this.#hasExpired(one, KEPT_MS))) {
      try {
        await records.remove(other.record.name, other.record.version)
      } catch (error) {
        if (!isApiError(error, 'Conflict', 'NotFound')) throw error
      }
    }
  }
}
