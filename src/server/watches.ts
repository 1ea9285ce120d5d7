import { readDeliverySegment } from '../apis/delivery-segment.ts'
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
import { isKeyAlive, KEY_LIFE_MS, type KeyRecord, keyRecordsOf } from '../webhooks/log/idempotency-keys.ts'
import type { LogStore, StoredSegment } from '../webhooks/log/log-store.ts'
import { LARGEST_LOG_PAGE, LOG_PAGE } from '../webhooks/log/reader.ts'
import type { CredentialDirectory } from './credential-resource.ts'
import { stillLoading } from './http/problems.ts'
import type { IdempotencyCache } from './idempotent-requests.ts'
import type { EndpointProgress } from './peers.ts'

/**
 * The watches of the REST server: organizations, event types, endpoints, registry credentials, and the delivery log for its
 * Idempotency-Keys.
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
    const keys = watchKeys(stores, needs.clock)
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

function watchKeys({ cache, log }: ServerStores, clock: Clock) {
  return log.feed<KeyRecord[]>('events', {
    pageSize: LOG_PAGE,
    largestPage: LARGEST_LOG_PAGE,
    // The first of several records with one key counts, so they have to come in the order of the log.
    handler: {
      applied: (records) => {
        for (const record of records) cache.apply(record)
      },
    },
    stopListing: (page) => page.every(({ metadata }) => isTooOld(metadata.name, clock)),
    decode: (stored) => readKeyRecords(stored, clock),
  })
}

/** Too old for a key that is alive. A name that Davit did not make has no time. */
function isTooOld(name: string, clock: Clock): boolean {
  return clock.now() - timeOfName(name) > KEY_LIFE_MS + MARGIN_MS
}

/** Copies the strings, since a list is held in memory until its end. @throws ZodError if it is no segment */
function readKeyRecords(raw: StoredSegment, clock: Clock): KeyRecord[] {
  // A deletion changes the version, and its records were read before.
  if (raw.metadata.deletionTimestamp !== undefined) return []
  const { metadata, spec } = readDeliverySegment(raw)
  return keyRecordsOf(spec, Number(metadata.resourceVersion))
    .filter((record) => isKeyAlive(record, clock.now()))
    .map((record) => ({
      ...record,
      id: copyString(record.id),
      namespace: copyString(record.namespace),
      key: copyString(record.key),
      fingerprint: copyString(record.fingerprint),
    }))
}
