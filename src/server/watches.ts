import { eventType, eventTypes } from '../apis/event-type.ts'
import { timeOfName } from '../apis/ids.ts'
import { registryCredential, registryCredentials } from '../apis/registry-credential.ts'
import { webhookEndpoint, webhookEndpoints } from '../apis/webhook-endpoint.ts'
import { type InformerDependencies, informers, into, kindOf } from '../kube/informer.ts'
import { ORGANIZATIONS, type Organizations } from '../kube/organizations.ts'
import type { Watch } from '../kube/watch-restarts.ts'
import { copyString } from '../lib/text.ts'
import type { Clock } from '../lib/time.ts'
import type { EndpointDirectory } from '../webhooks/endpoints/directory.ts'
import type { EventTypeStore } from '../webhooks/endpoints/event-types.ts'
import {
  correctedBy,
  isKeyAlive,
  KEY_LIFE_MS,
  type KeyRecord,
  keyRecordsOf,
} from '../webhooks/log/idempotency-keys.ts'
import type { LogStore, StoredSegment } from '../webhooks/log/log-store.ts'
import { LogTimes } from '../webhooks/log/log-times.ts'
import {
  LARGEST_LOG_PAGE,
  LOG_PAGE,
  readSharedSegment,
  segmentBytes,
  storedAtOf,
} from '../webhooks/log/reader.ts'
import { type ByteWindow, WRITTEN_MS, writtenBy } from '../webhooks/log/written-bytes.ts'
import type { CredentialDirectory } from './credential-resource.ts'
import { stillLoading } from './http/problems.ts'
import type { IdempotencyCache } from './idempotent-requests.ts'
import type { EndpointProgress } from './peers.ts'

/**
 * The watches of the REST server: organizations, event types, endpoints, registry credentials, and the delivery log for its
 * Idempotency-Keys and for what is written to it.
 */

/** The watch shows an append within milliseconds. */
const SEEN_WITHIN_MS = 2000
/** An API server that has just started needs many seconds for a list; a client that restarts it too early never gets one. */
const LONGEST_PATIENCE_MS = 32_000
/** A timer that is so late means that the process was suspended and has not handled what arrived since. */
const SUSPENDED_MS = 500

/** Detects a watch that died silently: what this process has appended is in the log, so the watch has to reach it. */
export class ReadYourWritesMonitor {
  readonly #clock: Clock
  readonly #seen: () => number
  readonly #onSilence: () => void
  /** Version of the newest append. */
  #appended = 0
  /** Version that was not seen in time. */
  #late = 0
  #cancel: (() => void) | undefined
  /** How long the watch got when it was last reopened, and until when. */
  #patienceMs = SEEN_WITHIN_MS
  #patientUntil = 0

  /**
   * @param seen the watch has delivered everything up to this version
   * @param onSilence called if the watch delivers nothing although there is something, and again, ever more rarely, until it does
   */
  constructor(clock: Clock, seen: () => number, onSilence: () => void) {
    this.#clock = clock
    this.#seen = seen
    this.#onSilence = onSilence
  }

  /** Whether something was not seen in time. */
  get isBehind(): boolean {
    return this.#seen() < this.#late
  }

  /** @param version of the segment that was written */
  appended(version: number): void {
    this.#appended = Math.max(this.#appended, version)
    if (!this.#cancel) this.#lookLater()
  }

  stop(): void {
    this.#cancel?.()
  }

  #lookLater(): void {
    const clock = this.#clock
    const [awaited, before] = [this.#appended, this.#seen()]
    const due = clock.monotonic() + SEEN_WITHIN_MS
    this.#cancel = clock.after(SEEN_WITHIN_MS, () => {
      this.#cancel = undefined
      if (clock.monotonic() - due > SUSPENDED_MS) return this.#lookLater()
      const seen = this.#seen()
      if (seen < awaited) this.#late = awaited
      // Do not reopen a watch that is slow but making progress.
      if (seen !== before) this.#patienceMs = SEEN_WITHIN_MS
      else if (seen < awaited && clock.monotonic() >= this.#patientUntil) {
        this.#patienceMs = Math.min(2 * this.#patienceMs, LONGEST_PATIENCE_MS)
        this.#patientUntil = clock.monotonic() + this.#patienceMs
        this.#onSilence()
      }
      if (this.#seen() < this.#appended) this.#lookLater()
    })
  }
}

export type ServerStores = {
  organizations: Organizations
  catalogue: EventTypeStore
  directory: EndpointDirectory
  credentials: CredentialDirectory
  cache: IdempotencyCache
  log: LogStore
  /** Learns what all processes append. */
  written: Pick<ByteWindow, 'add'>
  progress: EndpointProgress
}

/** A watch that was disconnected for longer may have missed something. */
const BEHIND_AFTER_MS = 5000
/** For clocks that differ. */
const MARGIN_MS = 60_000

type Watched = 'organizations' | 'event types' | 'endpoints' | 'registry credentials' | 'idempotency keys'

export class ServerWatches {
  /** Everything was read once. */
  readonly ready: Promise<unknown>
  /** Starts with `readEndpoints`. */
  readonly endpoints: Watch
  readonly #watches: ReadonlyMap<Watched, Watch>
  readonly #monitor: ReadYourWritesMonitor
  #readsEndpoints = false

  /** @param index its watches die together with these */
  constructor(stores: ServerStores, needs: InformerDependencies, index: Pick<Watch, 'reopen'>) {
    const keys = watchLog(stores, needs.clock)
    const { directory, progress } = stores
    const watch = informers(needs)
    this.endpoints = watch(kindOf(webhookEndpoints, webhookEndpoint), {
      applied: (endpoint) => {
        directory.apply(endpoint)
        progress.applied(endpoint)
      },
      deleted: (endpoint, version) => {
        directory.remove(endpoint)
        progress.deleted(endpoint, version)
      },
    })
    this.#watches = new Map<Watched, Watch>([
      ['organizations', watch(ORGANIZATIONS, into(stores.organizations))],
      ['event types', watch(kindOf(eventTypes, eventType), into(stores.catalogue))],
      ['endpoints', this.endpoints],
      [
        'registry credentials',
        watch(kindOf(registryCredentials, registryCredential), into(stores.credentials)),
      ],
      ['idempotency keys', keys],
    ])
    this.ready = Promise.all([...this.#watches.values()].map((watch) => watch.synced))
    const reopen = () => {
      needs.log.warn('log_watch_stalled', 'delivery log watch is behind own writes; reopening watches')
      // A reopened watch may still be catching up; a list is complete.
      for (const watch of this.#watches.values()) if (watch !== keys) watch.relist()
      for (const watch of [keys, index]) watch.reopen()
    }
    this.#monitor = new ReadYourWritesMonitor(needs.clock, () => keys.version, reopen)
  }

  /** This process has appended a segment. */
  appended(version: number): void {
    this.#monitor.appended(version)
  }

  /** Starts all watches but that of endpoints. */
  start(): void {
    for (const watch of this.#watches.values()) if (watch !== this.endpoints) watch.start()
  }

  /** Lists endpoints, again if need be: what is known of them does not count until that is done. */
  readEndpoints(): void {
    if (this.#readsEndpoints) this.endpoints.relist()
    else this.endpoints.start()
    this.#readsEndpoints = true
  }

  async stop(): Promise<void> {
    this.#monitor.stop()
    await Promise.all([...this.#watches.values()].map((watch) => watch.stop()))
  }

  /** Why these may be out of date, as a clause for clients and operators; undefined while they are not. */
  problemOf(name: Watched): string | undefined {
    const watch = this.#watches.get(name)
    if (!watch?.isListed) return stillLoading(name)
    if (this.#monitor.isBehind) return 'the server has not caught up with the delivery log'
    const lost = watch.health.disconnectedForMs()
    return lost < BEHIND_AFTER_MS
      ? undefined
      : `the server has been unable to read changes to ${name} for ${Math.floor(lost / 1000)} s`
  }

  problems(): string[] {
    return [...new Set([...this.#watches.keys()].flatMap((name) => this.problemOf(name) ?? []))]
  }
}

/** What is kept of a segment until the end of its list. @property ageMs since it was written, as far as that counts */
type SeenSegment = { records: KeyRecord[]; written: ReadonlyMap<string, number>; ageMs: number }

function watchLog({ cache, log, written }: ServerStores, clock: Clock): Watch {
  const times = new LogTimes()
  const watch: Watch = log.feed<SeenSegment>('events', {
    pageSize: LOG_PAGE,
    largestPage: LARGEST_LOG_PAGE,
    // The first of several records with one key counts, so they have to come in the order of the log.
    handler: {
      applied: (segment) => {
        for (const record of segment.records)
          cache.apply(correctedBy(record, times.writtenBy(record.position.version)))
        for (const [organization, bytes] of segment.written) written.add(organization, bytes, segment.ageMs)
      },
    },
    stopListing: (page) => page.every(({ metadata }) => isTooOld(metadata.name, clock)),
    // A list is decoded as a whole before any of it is applied, so the times of all its segments are known by then.
    decode: (stored, bytes) => readSeenSegment(stored, { bytes, clock, times, isNew: watch.isListed }),
  })
  return watch
}

/** Too old for a key that is alive. A name that Davit did not make has no time. */
function isTooOld(name: string, clock: Clock): boolean {
  return clock.now() - timeOfName(name) > KEY_LIFE_MS + MARGIN_MS
}

const NOTHING: SeenSegment = { records: [], written: new Map(), ageMs: 0 }

type Reading = { bytes: number | undefined; clock: Clock; times: LogTimes; isNew: boolean }

/** Copies the strings, since a list is held in memory until its end. @throws ZodError if it is no segment */
function readSeenSegment(raw: StoredSegment, { bytes, clock, times, isNew }: Reading): SeenSegment {
  // A deletion changes the version, and its records were read before.
  if (raw.metadata.deletionTimestamp !== undefined) return NOTHING
  const { metadata, spec } = readSharedSegment(raw, bytes)
  const version = Number(metadata.resourceVersion)
  times.add(version, Math.min(spec.writtenAt, clock.now()))
  const records = keyRecordsOf(spec, version)
    .filter((record) => isKeyAlive(record, clock.now()))
    .map((record) => ({
      ...record,
      id: copyString(record.id),
      namespace: copyString(record.namespace),
      key: copyString(record.key),
      fingerprint: copyString(record.fingerprint),
    }))
  const ageMs = isNew ? 0 : clock.now() - storedAtOf(metadata, spec)
  if (ageMs >= WRITTEN_MS) return { ...NOTHING, records }
  return { records, written: writtenBy(spec, bytes ?? segmentBytes(raw)), ageMs }
}
