/**
 * The replicas of the REST server as they see each other. Each keeps a Lease, which says that it lives and which changes of
 * endpoints it has seen. A replica that changes an endpoint waits for the others: the rare writer waits, so that no publisher has
 * to. A replica publishes only while the others wait for it, and only on what it has read since they began to. src/ha/README.md explains
 * the Leases.
 */
import { LRUCache } from 'lru-cache'
import {
  API_ROLE,
  apiReplicaLease,
  ENDPOINTS_SEEN_ANNOTATION,
  leases,
  MAX_LEASES,
  REPLICA_LABEL,
} from '../apis/core-kinds.ts'
import { DISABLE_ANNOTATION, ENABLE_ANNOTATION, type WebhookEndpoint } from '../apis/webhook-endpoint.ts'
import { LeaseValidity } from '../ha/own-lease.ts'
import { HeardVersions } from '../ha/peer-liveness.ts'
import {
  type LeaseRecord,
  type LeaseRecords,
  leaseName,
  ReplicaLeases,
  type ReplicaLeasesOptions,
  type Stored,
} from '../ha/replica-leases.ts'
import { isApiError, type RawObject } from '../kube/client.ts'
import type { WatchedKind } from '../kube/informer.ts'
import type { Watch } from '../kube/watch-restarts.ts'
import type { Logger } from '../lib/log.ts'
import { type Clock, InterruptibleSleep, sleep } from '../lib/time.ts'
import { Problem, stillLoading } from './http/problems.ts'
import type { NamespacedRef } from './objects.ts'

export type PeerRecord = LeaseRecord & {
  /** The replica knows every change of an endpoint up to this version. */
  seen: number
}

export type StoredPeerRecord = Stored<PeerRecord>
export type PeerRecords = LeaseRecords<PeerRecord>

const UNKNOWN_LEASE_MS = 60_000

/** The records as Leases in Davit's own namespace. */
export function apiLeases(options: ReplicaLeasesOptions): ReplicaLeases<PeerRecord> {
  return new ReplicaLeases<PeerRecord>(
    {
      role: API_ROLE,
      annotations: ({ seen }) => ({ [ENDPOINTS_SEEN_ANNOTATION]: String(seen) }),
      read,
      page: { limit: MAX_LEASES, max: 1 },
      plural: 'REST servers',
    },
    options,
  )
}

/** For an informer of the records of all REST servers. */
export function apiLeaseKind(namespace: string): WatchedKind<StoredPeerRecord> {
  return {
    type: leases,
    query: { namespace, labelSelector: `${REPLICA_LABEL}=${API_ROLE}` },
    decode: (raw) => ({ ...read(raw), version: String(raw.metadata.resourceVersion) }),
  }
}

/** An invalid record has seen nothing; its own replica overwrites it. */
function read(raw: RawObject): PeerRecord {
  const prefix = leaseName(API_ROLE, '')
  const name = raw.metadata.name.startsWith(prefix)
    ? raw.metadata.name.slice(prefix.length)
    : raw.metadata.name
  const { data } = apiReplicaLease.safeParse(raw)
  if (!data) return { name, session: '', seen: 0, leaseMs: UNKNOWN_LEASE_MS }
  return {
    name,
    session: data.spec.holderIdentity,
    seen: data.metadata.annotations[ENDPOINTS_SEEN_ANNOTATION],
    leaseMs: data.spec.leaseDurationSeconds * 1000,
  }
}

export type ReplicaHeartbeatOptions = {
  name: string
  /** Of this start of it. */
  session: string
  leaseMs: number
  records: PeerRecords
  /** The watch of endpoints. */
  watch: Pick<Watch, 'version' | 'isListed'>
  /** Lists endpoints, again if need be; nothing counts as read until that is done. */
  read: () => void
  /** Why the endpoints may be out of date, in words; undefined while they are not. */
  behind: () => string | undefined
  clock: Clock
  log: Logger
}

const BETWEEN_WRITES_MS = 100
const RETRY_MS = 500
const LEAVE_WITHIN_MS = 2000
const LOADING = stillLoading('endpoints')
const OUT_OF_SYNC = 'this API replica is temporarily out of sync'

/** Keeps the Lease of this replica. */
export class ReplicaHeartbeat {
  readonly #options: ReplicaHeartbeatOptions
  readonly #lease: LeaseValidity
  readonly #pause: InterruptibleSleep
  readonly #stopping = new AbortController()
  #running: Promise<void> = Promise.resolve()
  /** Version of our record, as far as it is known. */
  #stored: string | undefined
  /** A write had no response, or found another version. */
  #isInDoubt = true
  /** There is something to write. */
  #isNews = true
  #wasRead = false
  /** The others waited for this replica before it asked for the endpoints it has read. */
  #hasJoined = false
  #isWithdrawn = false
  #replaced = false
  #isFailing = false
  /** Since when the endpoints have been out of date, monotonic. */
  #behindSince: number | undefined

  constructor(options: ReplicaHeartbeatOptions) {
    const { clock, leaseMs } = options
    this.#options = options
    // A margin for clocks that differ in their rate, and for slow calls.
    this.#lease = new LeaseValidity(clock, (leaseMs * 2) / 3)
    this.#pause = new InterruptibleSleep(clock)
  }

  start(): void {
    this.#running = this.#run(this.#stopping.signal)
  }

  /** The watch has shown a change that others may wait for. */
  changed(): void {
    this.#isNews = true
    this.#pause.wake()
  }

  /** Whether the others wait for this replica. */
  get isWaitedFor(): boolean {
    return !this.#replaced && this.#lease.isValid
  }

  /** Milliseconds since its Lease was renewed. */
  get leaseAgeMs(): number {
    return this.#lease.ageMs
  }

  /** The same as a clause for clients, which can do nothing about the details. */
  get clientProblem(): string | undefined {
    const { problem } = this
    return problem === undefined || problem === LOADING ? problem : OUT_OF_SYNC
  }

  /** Why this replica may not publish, in words for operators; undefined while it may. */
  get problem(): string | undefined {
    if (this.#replaced) return `another process uses the name ${this.#options.name}`
    if (!this.#lease.isValid) return 'the Lease of this replica could not be renewed'
    if (!this.#hasJoined || !this.#options.watch.isListed) return LOADING
    return undefined
  }

  /** For a replica that no longer publishes, so that the others need not wait for it. */
  async leave(): Promise<void> {
    this.#stopping.abort()
    const { clock, log } = this.#options
    const over = new AbortController()
    const left = this.#running
      .then(() => this.#withdraw())
      .catch((error: unknown) =>
        log.warn('own_lease_removal_failed', 'failed to delete own Lease; it remains until it expires', {
          error,
        }),
      )
    await Promise.race([left, sleep(clock, LEAVE_WITHIN_MS, over.signal)])
    over.abort()
  }

  async #run(signal: AbortSignal): Promise<void> {
    const { leaseMs, behind, clock } = this.#options
    while (!signal.aborted && !this.#replaced) {
      await this.#round()
      await sleep(clock, this.#isFailing ? RETRY_MS : BETWEEN_WRITES_MS, signal)
      // Keep looking until endpoints are read and that is written.
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
      if (!this.#isFailing)
        this.#options.log.warn('own_lease_write_failed', 'failed to write own Lease; retrying', { error })
      this.#isFailing = true
    }
  }

  /** Then it publishes nothing, and the others should not wait for it. */
  #isBehindForLong(): boolean {
    const { clock, leaseMs, behind } = this.#options
    if (behind() === undefined) {
      this.#behindSince = undefined
      return false
    }
    // It has not asked for endpoints yet.
    if (!this.#hasJoined) return this.#isWithdrawn
    this.#behindSince ??= clock.monotonic()
    return clock.monotonic() - this.#behindSince >= leaseMs
  }

  #hasToWrite(): boolean {
    const { isListed } = this.#options.watch
    // Others may wait for the end of the list.
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
    // Others may have presumed this replica dead, and not have waited for it.
    if (isNew || !this.#lease.isValid) this.#hasJoined = false
    this.#lease.renewed(asked)
    if (this.#hasJoined) return
    read()
    this.#wasRead = false
    this.#behindSince = undefined
    this.#isWithdrawn = false
    this.#hasJoined = true
  }

  /** Looks for our record. @returns false if it belongs to another process by now */
  async #find(): Promise<boolean> {
    const { name, session, records, log } = this.#options
    const own: StoredPeerRecord | undefined = (await records.list()).find((record) => record.name === name)
    const isOther = own !== undefined && own.session !== session
    // At the start it is our predecessor's, which we take over.
    if (isOther && this.#lease.ageMs !== Number.POSITIVE_INFINITY) {
      this.#replaced = true
      log.error(
        'replica_name_conflict',
        'another process uses the name of this replica; publishing stopped',
        { name },
      )
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

/** @property seenAt when a list or the watch first showed this version, monotonic; it was written before that */
type Peer = { record: StoredPeerRecord; seenAt: number }

type Waiter = {
  /** The version that has to be seen; undefined while it is not known. */
  needed: () => number | undefined
  end: (haveSeen: boolean) => void
}

const LOOK_EVERY_MS = 25
/** With a watch, which may be silent because its connection is dead. Leases end within this time as well. */
const LOOK_WITHOUT_NEWS_MS = 250
const NEVER = new AbortController().signal
/** Added to the lease, for slow calls. */
const MARGIN_MS = 2000
const COLLECT_EVERY_MS = 10_000
/** After its end, a Lease is kept for so long: its replica may only have been suspended or cut off. */
const KEPT_MS = 20_000

export type PeerServersOptions = Pick<
  ReplicaHeartbeatOptions,
  'name' | 'leaseMs' | 'records' | 'clock' | 'log'
> & {
  /** Whether a watch of the records reports to `heard`. Absent: never. */
  isWatching?: () => boolean
}

/**
 * Waits for the other replicas, and removes what crashed ones left. Only a list says what they have seen, since it is as of a moment
 * after the change; a watch of their records says when it is worth another list.
 */
export class PeerServers {
  readonly #options: PeerServersOptions
  readonly #news: InterruptibleSleep
  readonly #peers = new Map<string, Peer>()
  readonly #heard = new HeardVersions()
  readonly #waiters = new Set<Waiter>()
  /** When the latest list was requested. */
  #asOf = Number.NEGATIVE_INFINITY
  #isLooking = false

  constructor(options: PeerServersOptions) {
    this.#options = options
    this.#news = new InterruptibleSleep(options.clock)
  }

  /**
   * The watch has shown a record. Only a list says what counts; this says from when on its lease is timed, and whether there is a
   * reason to list: a renewal that says nothing new is none.
   */
  heard(record: StoredPeerRecord): void {
    const { name: own, clock } = this.#options
    const { name, seen } = record
    if (name === own) return
    this.#heard.note(record, clock.monotonic())
    if (this.#peers.get(name)?.record.seen !== seen) this.lookAgain()
  }

  /** Something that a change may wait for has happened: a record is gone, or this replica has seen more itself. */
  lookAgain(): void {
    if (this.#isLooking) this.#news.wake()
  }

  /** Number of changes that wait. */
  get waiting(): number {
    return this.#waiters.size
  }

  /**
   * Resolves when every replica has seen the version or may no longer publish.
   * @returns false if that takes longer than the lease of a dead one
   */
  haveSeen(needed: () => number | undefined): Promise<boolean> {
    const { clock, leaseMs } = this.#options
    return new Promise((resolve) => {
      const waiter: Waiter = {
        needed,
        end: (haveSeen) => {
          stop()
          this.#waiters.delete(waiter)
          resolve(haveSeen)
        },
      }
      // Not a matter of the reader, which may itself wait for a response.
      const stop = clock.after(leaseMs + MARGIN_MS, () => waiter.end(false))
      this.#waiters.add(waiter)
      if (this.#isLooking) this.#news.wake()
      else void this.#look()
    })
  }

  /** Removes the Leases of crashed replicas. */
  async collectExpiredForever(signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#options
    for (;;) {
      await sleep(clock, COLLECT_EVERY_MS, signal)
      if (signal.aborted) return
      try {
        await this.#collectExpired()
      } catch (error) {
        log.warn('lease_removal_failed', 'failed to delete expired Leases of REST servers; retrying', {
          error,
        })
      }
    }
  }

  /** One reader for all waiters. */
  async #look(): Promise<void> {
    const { log } = this.#options
    this.#isLooking = true
    let isFailing = false
    while (this.#waiters.size > 0) {
      try {
        await this.#answer([...this.#waiters])
      } catch (error) {
        if (!isFailing)
          log.warn('peer_leases_read_failed', 'failed to read Leases of other REST servers; retrying', {
            error,
          })
        isFailing = true
      }
      if (this.#waiters.size > 0) await this.#untilNews()
    }
    this.#isLooking = false
  }

  async #untilNews(): Promise<void> {
    const { clock, isWatching } = this.#options
    await sleep(clock, LOOK_EVERY_MS)
    if (isWatching?.()) await this.#news.sleep(LOOK_WITHOUT_NEWS_MS - LOOK_EVERY_MS, NEVER)
  }

  /** @param waiters their changes were made before the list is requested */
  async #answer(waiters: readonly Waiter[]): Promise<void> {
    await this.#read()
    for (const waiter of waiters) if (this.#isSeen(waiter.needed)) waiter.end(true)
  }

  async #read(): Promise<void> {
    const { name, records, clock } = this.#options
    const asked = clock.monotonic()
    const stored = await records.list()
    // Lists may overtake each other; skip an older one.
    if (asked < this.#asOf) return
    this.#asOf = asked
    const now = clock.monotonic()
    const names = new Set(stored.map((record) => record.name))
    for (const gone of this.#peers.keys()) if (!names.has(gone)) this.#peers.delete(gone)
    this.#heard.keep(names)
    for (const record of stored) {
      if (record.name === name) continue
      if (this.#peers.get(record.name)?.record.version === record.version) continue
      this.#peers.set(record.name, { record, seenAt: this.#heard.seenAt(record, now) })
    }
  }

  #isSeen(needed: Waiter['needed']): boolean {
    const living = [...this.#peers.values()].filter((other) => !this.#hasExpired(other))
    if (living.length === 0) return true
    const version = needed()
    return version !== undefined && living.every(({ record }) => record.seen >= version)
  }

  #hasExpired({ record, seenAt }: Peer, afterMs = 0): boolean {
    return this.#asOf - seenAt >= record.leaseMs + afterMs
  }

  /** One that cannot be removed keeps none of the others. @throws the first error */
  async #collectExpired(): Promise<void> {
    const { records } = this.#options
    await this.#read()
    const errors: unknown[] = []
    for (const { record } of [...this.#peers.values()].filter((one) => this.#hasExpired(one, KEPT_MS))) {
      try {
        await records.remove(record.name, record.version)
      } catch (error) {
        if (!isApiError(error, 'Conflict', 'NotFound')) errors.push(error)
      }
    }
    if (errors.length > 0) throw errors[0]
  }
}

export type EndpointProgressOptions = {
  /** The watch has delivered everything up to this version. */
  seen: () => number
  /** Called after a change that affects what an endpoint gets. */
  onChange: () => void
}

/** Deletions that a writer may still wait for. */
const MAX_REMOVED = 10_000

/** The version at which the watch showed each endpoint's last change that matters to publishers. */
export class EndpointProgress {
  readonly #options: EndpointProgressOptions
  /** By UID. */
  readonly #marks = new Map<string, { text: string; version: number }>()
  /** Versions at which the latest deleted endpoints were deleted, by UID. */
  readonly #removed = new LRUCache<string, number | { after: number }>({ max: MAX_REMOVED })

  constructor(options: EndpointProgressOptions) {
    this.#options = options
  }

  /** The watch has shown the endpoint. */
  applied(endpoint: WebhookEndpoint): void {
    const { uid, resourceVersion, deletionTimestamp } = endpoint.metadata
    const text = markOf(endpoint)
    if (this.#marks.get(uid)?.text === text) return
    const version = Number(resourceVersion)
    this.#marks.set(uid, { text, version })
    if (deletionTimestamp !== undefined) this.#removed.set(uid, version)
    this.#options.onChange()
  }

  /** The watch has shown the deletion. @param version absent if a list lacks it, whose version is seen at its end */
  deleted({ metadata: { uid } }: WebhookEndpoint, version?: number): void {
    this.#marks.delete(uid)
    if (!this.#removed.has(uid)) this.#removed.set(uid, version ?? { after: this.#options.seen() })
    this.#options.onChange()
  }

  /** A replica that has seen this version knows the endpoint as given: later versions changed nothing that matters. */
  versionOf(endpoint: WebhookEndpoint): number {
    const { uid, resourceVersion } = endpoint.metadata
    const version = Number(resourceVersion)
    const mark = this.#marks.get(uid)
    const isKnown =
      mark?.text === markOf(endpoint) && mark.version < version && this.#options.seen() >= version
    return isKnown ? mark.version : version
  }

  /** A replica that has seen this version knows that the endpoint is gone; undefined until our watch has shown that. */
  removalOf(uid: string): number | undefined {
    const noted = this.#removed.get(uid)
    if (typeof noted !== 'object') return noted
    const seen = this.#options.seen()
    if (seen <= noted.after) return undefined
    this.#removed.set(uid, seen)
    return seen
  }
}

/** Without the status: what a controller writes there does not matter to a REST request. */
function markOf({ metadata }: WebhookEndpoint): string {
  const { generation, deletionTimestamp, annotations = {} } = metadata
  return JSON.stringify([
    generation,
    deletionTimestamp !== undefined,
    annotations[ENABLE_ANNOTATION],
    annotations[DISABLE_ANNOTATION],
  ])
}

const RETRY_AFTER_SECONDS = 2
const MAX_UNACKNOWLEDGED = 1000
const LATE =
  'The change is saved. Another replica of the REST API has not seen the change yet, so events published through that replica may still be delivered according to the previous settings. That replica will catch up automatically; no action is needed.'

/**
 * A writer of endpoints waits until every replica of the REST server knows the change before it responds, so that an event
 * published afterwards, through any replica, is delivered accordingly. All methods @throws Problem not_acknowledged
 */
export class ReplicaBarrier {
  readonly #peers: Pick<PeerServers, 'haveSeen'>
  readonly #progress: Pick<EndpointProgress, 'versionOf' | 'removalOf'>
  /** UIDs of deletions that were not acknowledged, by namespace and name. */
  readonly #unacknowledged = new LRUCache<string, string>({ max: MAX_UNACKNOWLEDGED })

  constructor(
    peers: Pick<PeerServers, 'haveSeen'>,
    progress: Pick<EndpointProgress, 'versionOf' | 'removalOf'>,
  ) {
    this.#peers = peers
    this.#progress = progress
  }

  /** Until all replicas know the endpoint as given. @param advice for the problem, with a space before it */
  untilKnown(endpoint: WebhookEndpoint, advice?: string): Promise<void> {
    return this.#wait(() => this.#progress.versionOf(endpoint), advice)
  }

  /** Until all replicas know that the endpoint is gone. */
  async untilRemovalKnown({ namespace, name, uid }: NamespacedRef & { uid: string }): Promise<void> {
    const key = `${namespace}/${name}`
    this.#unacknowledged.set(key, uid)
    await this.#wait(() => this.#progress.removalOf(uid))
    if (this.#unacknowledged.get(key) === uid) this.#unacknowledged.delete(key)
  }

  /** The same for the repeat of a deletion that was not acknowledged; returns at once for any other. */
  async untilEarlierRemovalKnown({ namespace, name }: NamespacedRef): Promise<void> {
    const uid = this.#unacknowledged.get(`${namespace}/${name}`)
    if (uid !== undefined) await this.untilRemovalKnown({ namespace, name, uid })
  }

  async #wait(needed: () => number | undefined, advice = ''): Promise<void> {
    if (await this.#peers.haveSeen(needed)) return
    throw new Problem('not_acknowledged', { detail: LATE + advice, retryAfter: RETRY_AFTER_SECONDS })
  }
}
