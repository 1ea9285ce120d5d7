import { deliverySegments } from '../apis/delivery-segment.ts'
import { AccountIdentity } from '../credentials/accounts/identity.ts'
import type { ParameterListing, ParameterStore } from '../credentials/cloud.ts'
import type { ResourceReader, ResourceWriter, WatchSource } from '../kube/client.ts'
import { Organizations } from '../kube/organizations.ts'
import type { Watch } from '../kube/watch-health.ts'
import type { Clock, Random } from '../lib/clock.ts'
import type { SchemaValidator } from '../lib/json-schema.ts'
import type { Logger } from '../lib/log.ts'
import type { CredentialMetrics, LogMetrics, RuntimeMetrics } from '../lib/metrics.ts'
import { deriveKey } from '../lib/text.ts'
import type { UrlPolicy } from '../net/egress-policy.ts'
import { EndpointDirectory } from '../webhooks/endpoints/directory.ts'
import { EventTypeStore } from '../webhooks/endpoints/event-types.ts'
import { ByteWindow, type IntakeLimits, type Pending, PublishQuota } from '../webhooks/events/quota.ts'
import { createEventLog, firstNameReader, SegmentNamer } from '../webhooks/log/kubernetes-store.ts'
import type { Appended, EventLog } from '../webhooks/log/store.ts'
import { CredentialDirectory, type RegistryCredentials } from './credential-resource.ts'
import { CredentialService } from './credentials.ts'
import type { DeliveryLocator, OwnAppends } from './delivery-index/queries.ts'
import { LiveControllers } from './endpoint-acknowledgements.ts'
import type { Endpoints } from './endpoint-resource.ts'
import { EndpointService } from './endpoints.ts'
import { type Publishing, PublishingService, type PublishingServiceOptions, Subscriptions } from './events.ts'
import { RefusedError, withLogRefusals } from './http/problems.ts'
import { Idempotency, IdempotencyCache, type IdempotencyKeys } from './idempotency.ts'
import { PeerLeases, PeerServers, ReplicaHeartbeat } from './peers.ts'
import { PublishCounts, type UnfinishedDeliveries } from './publish-counts.ts'
import { EndpointProgress, type EndpointReplicas, ReplicaBarrier } from './replica-barrier.ts'
import { type OrganizationSettings, SecretsSettingsService } from './secrets-settings.ts'
import { ServerWatches } from './watches.ts'

/** The replicas of the facade as this one sees them, wired: its own Lease, the others, and the writers that wait for them. */

export type ServerReplicasOptions = {
  api: ResourceReader & ResourceWriter
  /** The operator's namespace. */
  namespace: string
  /** The replica's name. */
  writer: string
  /** How long its Lease counts without being renewed. */
  leaseMs: number
  /** Of Leases, where the world has a time of its own. */
  leaseClock?: Clock | undefined
  clock: Clock
  random: Random
  log: Logger
}

/** Whether others wait for what this replica has not seen, how old its Lease is, and how many changes here wait for others. */
type ReplicaStats = { isWaitedFor: boolean; leaseAgeMs: number; waiting: number }

class ServerReplicas {
  readonly endpoints: EndpointReplicas
  readonly #presence: ReplicaHeartbeat
  readonly #others: PeerServers
  readonly #watches: ServerWatches
  readonly #stopping = new AbortController()
  #tidying: Promise<void> = Promise.resolve()

  constructor(options: ServerReplicasOptions, watches: ServerWatches, progress: EndpointProgress) {
    const { api, namespace, writer, leaseMs, leaseClock: clock = options.clock, random, log } = options
    const records = new PeerLeases({ resources: api, namespace, clock })
    const shared = { name: writer, leaseMs, records, clock, log }
    this.#watches = watches
    this.#others = new PeerServers(shared)
    this.#presence = new ReplicaHeartbeat({
      ...shared,
      session: `${writer}.${Buffer.from(random.bytes(6)).toString('hex')}`,
      watch: watches.endpoints,
      read: () => watches.readEndpoints(),
      behind: () => watches.problemOf('endpoints'),
    })
    this.endpoints = new ReplicaBarrier(this.#others, progress)
  }

  /** Something was seen that other replicas may wait for. */
  changed(): void {
    this.#presence.changed()
  }

  /** Why it may not be known which endpoints there are, in words; undefined while it is. */
  behind(): string | undefined {
    return this.#presence.problem ?? this.#watches.problemOf('endpoints')
  }

  stats(): ReplicaStats {
    const { isWaitedFor, leaseAgeMs } = this.#presence
    return { isWaitedFor, leaseAgeMs, waiting: this.#others.waiting }
  }

  start(): void {
    this.#presence.start()
    this.#tidying = this.#others.collectExpiredForever(this.#stopping.signal)
  }

  /** Nothing is published any more. */
  async leave(): Promise<void> {
    this.#stopping.abort()
    await Promise.all([this.#presence.leave(), this.#tidying])
  }
}

/** The facade's services of endpoints, publishing, credentials and Idempotency-Keys, wired, with the watches that they live on. */

export type ServerServicesOptions = {
  api: ResourceReader & ResourceWriter & WatchSource
  /** The operator's namespace. */
  namespace: string
  /** Name of this process in the log, and among the replicas. */
  writer: string
  /** After so long without renewing its Lease a replica is taken for gone, milliseconds. */
  leaseMs: number
  /** Of Leases, where the world has a time of its own. */
  leaseClock?: Clock
  /** The key of the installation. */
  installationKey: Uint8Array
  limits: {
    endpointsPerOrganization: number
    credentialsPerOrganization: number
    intake: IntakeLimits
    /** Idempotency-Keys that stand at a time. */
    keys: Pending
  }
  /** The accounts of organizations, and what every parameter in them is under. */
  cloud: ParameterStore & ParameterListing
  parameterPrefix: string
  /** Organizations that a restore has made anew (organizations.ts). */
  formerOrganizations?: Iterable<readonly [uid: string, before: string]>
  index: OwnAppends & DeliveryLocator & UnfinishedDeliveries & Pick<Watch, 'reopen'>
  clock: Clock
  random: Random
  log: Logger
  metrics: LogMetrics & RuntimeMetrics & CredentialMetrics
  validator: SchemaValidator
  urlGuard: UrlPolicy
}

export type ServerServices = {
  endpoints: Endpoints
  publishing: Publishing
  credentials: RegistryCredentials
  settings: OrganizationSettings
  keys: IdempotencyKeys
  organizations: Organizations
  catalogue: EventTypeStore
  directory: EndpointDirectory
  replicas(): ReplicaStats
  /** What waits longest to be appended, milliseconds, and the bytes appended in ten minutes. */
  appends(): { oldestMs: number; writtenBytes: number }
  /** Starts the watches. */
  start(): void
  /** Everything was read once. */
  ready: Promise<unknown>
  /** What is still to be read, or could not be watched of late, in words. */
  problems(): string[]
  /** What waits to be appended is appended; no watch goes on. */
  stop(): Promise<void>
}

/** Old versions of objects take room until the store is compacted, which takes five to ten minutes. */
const WRITTEN_MINUTES = 10
const UNREAD_SECONDS = 2

export function createServerServices(options: ServerServicesOptions): ServerServices {
  const { api, namespace, clock } = options
  const organizations = new Organizations(options.formerOrganizations)
  const catalogue = new EventTypeStore()
  const directory = new EndpointDirectory()
  const written = new ByteWindow(clock, WRITTEN_MINUTES)
  const names = new SegmentNamer({ ...options, first: firstNameReader(api, deliverySegments, namespace) })
  const log = createEventLog({
    ...options,
    resources: api,
    names,
    onWritten: (organization, bytes) => written.add(organization, bytes),
  })
  const book = new IdempotencyCache({ clock, limits: options.limits.keys })
  const credentials = new CredentialDirectory()
  const progress: EndpointProgress = new EndpointProgress({
    seen: () => watches.endpoints.version,
    onChange: () => replicas.changed(),
  })
  const views = { organizations, catalogue, directory, credentials, book, names, progress }
  const watches = new ServerWatches({ views, needs: options, namespace, others: options.index })
  const replicas = new ServerReplicas(options, watches, progress)
  const eventLog = notifyingLog(withLogRefusals(log), ({ version }) => watches.appended(version))
  const keys = new Idempotency({
    ...options,
    book,
    eventLog,
    hashKey: deriveKey('idempotency', options.installationKey),
    behind: () => watches.problemOf('keys'),
  })
  const behind = () => replicas.behind()
  const shared = { ...options, resources: api, directory, catalogue, keys, behind }
  return {
    endpoints: new EndpointService({
      ...shared,
      replicas: replicas.endpoints,
      controllers: new LiveControllers({
        resources: api,
        namespace: options.namespace,
        clock: options.leaseClock ?? options.clock,
      }),
      maxEndpoints: options.limits.endpointsPerOrganization,
    }),
    publishing: createPublishing({ ...shared, eventLog, written }),
    ...createSecretServices({ ...options, organizations, keys }, credentials, () =>
      watches.problemOf('registry credentials'),
    ),
    keys,
    organizations,
    catalogue,
    directory,
    replicas: () => replicas.stats(),
    appends: () => ({ oldestMs: log.oldestMs(), writtenBytes: written.total }),
    start: () => {
      watches.start()
      replicas.start()
    },
    ready: watches.ready,
    problems: () => [...new Set([...watches.problems(), replicas.behind() ?? []].flat())],
    stop: async () => {
      await log.drain()
      await replicas.leave()
      await watches.stop()
    },
  }
}

/** The same log; `tell` hears where each append landed. */
function notifyingLog(log: EventLog, tell: (place: Appended) => void): EventLog {
  return {
    append: async (events) => {
      const place = await log.append(events)
      tell(place)
      return place
    },
  }
}

function createSecretServices(
  options: ServerServicesOptions & { organizations: Organizations; keys: IdempotencyKeys },
  directory: CredentialDirectory,
  behind: () => string | undefined,
): Pick<ServerServices, 'credentials' | 'settings'> {
  const { api, cloud, installationKey, parameterPrefix, limits } = options
  const shared = {
    ...options,
    resources: api,
    identity: new AccountIdentity(installationKey, parameterPrefix),
  }
  const maxCredentials = limits.credentialsPerOrganization
  return {
    credentials: new CredentialService({ ...shared, directory, behind, parameters: cloud, maxCredentials }),
    settings: new SecretsSettingsService(shared),
  }
}

type PublishingParts = ServerServicesOptions &
  Pick<PublishingServiceOptions, 'resources' | 'directory' | 'catalogue' | 'keys' | 'eventLog' | 'behind'> & {
    written: ByteWindow
  }

function createPublishing(parts: PublishingParts): Publishing {
  const { index, directory, clock, written, limits } = parts
  const counts = new PublishCounts({ index, directory, clock })
  const room = new PublishQuota({
    counters: counts,
    unconfirmed: { total: 0, ofOrganization: () => 0 },
    written,
    queues: (namespace) => counts.fullest(namespace),
    limits: limits.intake,
  })
  return new PublishingService({
    ...parts,
    subscriptions: new Subscriptions(directory),
    segmentOf: (endpoint, deliveryId) => {
      if (index.progress === undefined) return index.segmentOf(endpoint, deliveryId)
      const detail = `The log of deliveries is not complete yet (${index.progress}).`
      throw new RefusedError('overloaded', { detail, retryAfter: UNREAD_SECONDS })
    },
    appears: (endpoint, deliveryId) => index.appears(endpoint, deliveryId),
    own: index,
    room: {
      of: (namespace) => room.remaining(namespace),
      reserve: (namespace, deliveries) => counts.reserve(namespace, deliveries),
    },
  })
}
