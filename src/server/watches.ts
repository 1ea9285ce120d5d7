import { namespaces } from '../apis/core-kinds.ts'
import { deliverySegments, readDeliverySegment } from '../apis/delivery-segment.ts'
import { eventType, eventTypes } from '../apis/event-type.ts'
import { timeOfName } from '../apis/ids.ts'
import { ORGANIZATION_LABEL } from '../apis/meta.ts'
import { registryCredential, registryCredentials } from '../apis/registry-credential.ts'
import { webhookEndpoint, webhookEndpoints } from '../apis/webhook-endpoint.ts'
import type { RawObject } from '../kube/client.ts'
import { Informer, type InformerDependencies } from '../kube/informer.ts'
import { type Organizations, readOrganization } from '../kube/organizations.ts'
import type { Watch } from '../kube/watch-health.ts'
import type { Clock } from '../lib/clock.ts'
import { copyString } from '../lib/text.ts'
import type { EndpointDirectory } from '../webhooks/endpoints/directory.ts'
import type { EventTypeStore } from '../webhooks/endpoints/event-types.ts'
import { isKeyAlive, KEY_LIFE_MS, type KeyRecord, keyRecordsOf } from '../webhooks/log/dedupe.ts'
import type { SegmentNamer } from '../webhooks/log/kubernetes-store.ts'
import { LARGEST_LOG_PAGE, LOG_PAGE } from '../webhooks/log/reader.ts'
import type { CredentialDirectory } from './credential-resource.ts'
import type { IdempotencyCache } from './idempotency.ts'
import type { EndpointProgress } from './replica-barrier.ts'

export type ReadYourWritesMonitorOptions = {
  clock: Clock
  /** Everything in the log up to this version was shown by its watch. */
  shown: () => number
  /** Called when the watch shows nothing although there is something, and again, less and less often, while it does not. */
  onSilence: () => void
}

/** The watch shows an append within milliseconds. */
const SHOWN_WITHIN_MS = 2000
/** An API server that has just started needs many seconds for a first list; whoever begins anew meanwhile never has one. */
const LONGEST_PATIENCE_MS = 32_000
/** A timer that is so late tells that the process stood still, and what came meanwhile is not handled yet. */
const STOOD_STILL_MS = 500

/**
 * Finds a watch that is dead without knowing it, as when a connection is cut off without a word: what this process has
 * appended is in the log for sure, so the watch of the log has to come there.
 */
export class ReadYourWritesMonitor {
  readonly #options: ReadYourWritesMonitorOptions
  /** The newest append. */
  #appended = 0
  /** What was not shown in time. */
  #late = 0
  #cancel: (() => void) | undefined
  /** How long the watch was given when it last began anew, and until when. */
  #patienceMs = SHOWN_WITHIN_MS
  #patientUntil = 0

  constructor(options: ReadYourWritesMonitorOptions) {
    this.#options = options
  }

  /** Whether something is not shown that should be by now. */
  get isBehind(): boolean {
    return this.#options.shown() < this.#late
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
    const { clock, shown, onSilence } = this.#options
    const [awaited, before] = [this.#appended, shown()]
    const due = clock.monotonic() + SHOWN_WITHIN_MS
    this.#cancel = clock.after(SHOWN_WITHIN_MS, () => {
      this.#cancel = undefined
      if (clock.monotonic() - due > STOOD_STILL_MS) return this.#lookLater()
      if (shown() < awaited) this.#late = awaited
      // A watch that gets on, only slowly, is not helped by beginning anew.
      if (shown() !== before) this.#patienceMs = SHOWN_WITHIN_MS
      else if (shown() < awaited && clock.monotonic() >= this.#patientUntil) {
        this.#patienceMs = Math.min(2 * this.#patienceMs, LONGEST_PATIENCE_MS)
        this.#patientUntil = clock.monotonic() + this.#patienceMs
        onSilence()
      }
      if (shown() < this.#appended) this.#lookLater()
    })
  }
}

/** What the facade watches: organizations, event types, endpoints, registry credentials, and the log for its Idempotency-Keys. */

export type ServerStores = {
  organizations: Organizations
  catalogue: EventTypeStore
  directory: EndpointDirectory
  credentials: CredentialDirectory
  book: IdempotencyCache
  /** Of the segments that this process appends. */
  names: SegmentNamer
  progress: EndpointProgress
}

/** A watch that has been silent for longer may have missed something. */
const BEHIND_AFTER_MS = 5000
/** Clocks of writers may differ by so much. */
const MARGIN_MS = 60_000

type Watched = 'organizations' | 'event types' | 'endpoints' | 'registry credentials' | 'keys'

export type ServerWatchesOptions = {
  views: ServerStores
  needs: InformerDependencies
  /** The operator's namespace. */
  namespace: string
  /** Watches elsewhere, which are as dead as these if these are. */
  others: Pick<Watch, 'reopen'>
}

export class ServerWatches {
  /** Everything was read once. */
  readonly ready: Promise<unknown>
  /** Begins when it is told to. */
  readonly endpoints: Watch
  readonly #watches: ReadonlyMap<Watched, Watch>
  readonly #check: ReadYourWritesMonitor
  #readsEndpoints = false

  constructor({ views, needs, namespace, others }: ServerWatchesOptions) {
    const keys = watchKeys(views, needs, namespace)
    this.endpoints = watchEndpoints(views, needs)
    this.#watches = new Map<Watched, Watch>([
      ['organizations', watchOrganizations(views, needs)],
      ['event types', watchEventTypes(views, needs)],
      ['endpoints', this.endpoints],
      ['registry credentials', watchCredentials(views, needs)],
      ['keys', keys],
    ])
    this.ready = Promise.all([...this.#watches.values()].map((watch) => watch.synced))
    const reopen = () => {
      needs.log.warn('The log is further than what was seen of it; its watches are opened anew')
      // A watch that is open again may still have to tell what came meanwhile; a list has told all.
      for (const watch of this.#watches.values()) if (watch !== keys) watch.relist()
      for (const watch of [keys, others]) watch.reopen()
    }
    this.#check = new ReadYourWritesMonitor({
      clock: needs.clock,
      shown: () => keys.version,
      onSilence: reopen,
    })
  }

  /** This process has appended. @param version of the segment */
  appended(version: number): void {
    this.#check.appended(version)
  }

  /** All but that of endpoints. */
  start(): void {
    for (const watch of this.#watches.values()) if (watch !== this.endpoints) watch.start()
  }

  /** Begins with endpoints, or begins anew: what was known of them does not count until they are read again. */
  readEndpoints(): void {
    if (this.#readsEndpoints) this.endpoints.relist()
    else this.endpoints.start()
    this.#readsEndpoints = true
  }

  async stop(): Promise<void> {
    this.#check.stop()
    await Promise.all([...this.#watches.values()].map((watch) => watch.stop()))
  }

  /** Why what is known of these may not be all, in words; undefined while it is. */
  problemOf(name: Watched): string | undefined {
    const watch = this.#watches.get(name)
    if (!watch?.isListed) return `${name} are being read`
    if (this.#check.isBehind) return `${name} may have changed: the log is further than what was seen of it`
    const lost = watch.health.disconnectedForMs()
    return lost < BEHIND_AFTER_MS
      ? undefined
      : `${name} could not be watched for ${Math.floor(lost / 1000)} s`
  }

  problems(): string[] {
    return [...this.#watches.keys()].flatMap((name) => this.problemOf(name) ?? [])
  }
}

function watchOrganizations({ organizations }: ServerStores, needs: InformerDependencies) {
  return new Informer(
    {
      type: namespaces,
      query: { labelSelector: `${ORGANIZATION_LABEL}=true` },
      decode: readOrganization,
      handler: {
        applied: (organization) => organizations.apply(organization),
        deleted: ({ name }) => organizations.remove(name),
      },
    },
    needs,
  )
}

function watchEventTypes({ catalogue }: ServerStores, needs: InformerDependencies) {
  return new Informer(
    {
      type: eventTypes,
      decode: (raw) => eventType.parse(raw),
      handler: { applied: (type) => catalogue.apply(type), deleted: (type) => catalogue.remove(type) },
    },
    needs,
  )
}

function watchEndpoints({ directory, progress }: ServerStores, needs: InformerDependencies) {
  return new Informer(
    {
      type: webhookEndpoints,
      decode: (raw) => webhookEndpoint.parse(raw),
      handler: {
        applied: (endpoint) => {
          directory.apply(endpoint)
          progress.applied(endpoint)
        },
        deleted: (endpoint, version) => {
          directory.remove(endpoint)
          progress.deleted(endpoint, version)
        },
      },
    },
    needs,
  )
}

function watchCredentials({ credentials }: ServerStores, needs: InformerDependencies) {
  return new Informer(
    {
      type: registryCredentials,
      decode: (raw) => registryCredential.parse(raw),
      handler: {
        applied: (credential) => credentials.apply(credential),
        deleted: (credential) => credentials.remove(credential),
      },
    },
    needs,
  )
}

function watchKeys({ book, names }: ServerStores, needs: InformerDependencies, namespace: string) {
  const { clock } = needs
  return new Informer(
    {
      type: deliverySegments,
      query: { namespace, limit: LOG_PAGE },
      largestPage: LARGEST_LOG_PAGE,
      // Of several places with one key the first counts: they have to come in the order of the log.
      streaming: true,
      stopListing: (page) => page.every(({ metadata }) => isTooOld(metadata.name, clock)),
      decode: (raw) => ({ segment: raw.metadata.name, records: readKeyRecords(raw, clock) }),
      handler: {
        applied: ({ segment, records }) => {
          names.observe(segment)
          for (const record of records) book.take(record)
        },
      },
    },
    needs,
  )
}

/** A segment from then says nothing of keys that stand. A name that Davit did not make tells no time. */
function isTooOld(name: string, clock: Clock): boolean {
  return clock.now() - timeOfName(name) > KEY_LIFE_MS + MARGIN_MS
}

/** In memory of their own: all of a list is held until its end. @throws ZodError when it is no segment */
function readKeyRecords(raw: RawObject, clock: Clock): KeyRecord[] {
  // A deletion moves its version; what it said was said before.
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
