/** The facade's services of endpoints, publishing, credentials and Idempotency-Keys, wired, with the watches that they live on. */
import { deliverySegments } from '../apis/delivery-segment.ts'
import { accountIdentity } from '../credentials/accounts/account-identity.ts'
import type { ParameterListing, ParameterStore } from '../credentials/cloud.ts'
import type { ResourceReader, ResourceWriter, WatchSource } from '../kube/client.ts'
import { Organizations } from '../kube/organizations.ts'
import type { Watch } from '../kube/watch.ts'
import { deriveKey } from '../lib/key-hash.ts'
import type { CredentialMetrics, LogMetrics, RuntimeMetrics } from '../lib/metrics.ts'
import type { Clock, Random } from '../lib/ports-clock.ts'
import type { Logger } from '../lib/ports-log.ts'
import type { SchemaValidator } from '../lib/schema-validator.ts'
import type { UrlPolicy } from '../net/url-guard.ts'
import { EndpointDirectory } from '../webhooks/endpoints/directory.ts'
import { EventTypeStore } from '../webhooks/endpoints/event-types.ts'
import { ByteWindow } from '../webhooks/events/byte-window.ts'
import type { Pending } from '../webhooks/events/pending-limits.ts'
import { type IntakeLimits, PublishQuota } from '../webhooks/events/quota.ts'
import { createEventLog } from '../webhooks/log/event-log.ts'
import { firstNameReader, SegmentNamer } from '../webhooks/log/segment-names.ts'
import type { Appended, EventLog } from '../webhooks/log/store.ts'
import { CredentialDirectory } from './credential-directory.ts'
import type { RegistryCredentials } from './credential-resource.ts'
import type { DeliveryPlaces, OwnAppends } from './delivery-index/ports-delivery-index.ts'
import type { Endpoints } from './endpoint-resource.ts'
import { EndpointService } from './endpoints-endpoints.ts'
import { PublishingService, type PublishingServiceOptions } from './events.ts'
import { type ReplicaStats, ServerReplicas } from './facade-replicas.ts'
import { withLogRefusals } from './http/refusals.ts'
import { RefusedError } from './http/refused-error.ts'
import { Idempotency } from './idempotency.ts'
import { IdempotencyCache } from './idempotency-book.ts'
import { LiveControllers } from './live-controllers.ts'
import type { IdempotencyKeys } from './ports-idempotency.ts'
import type { OrganizationSettings } from './ports-secrets-settings.ts'
import { PublishCounts, type UnfinishedDeliveries } from './publish-counts.ts'
import type { Publishing } from './publishing.ts'
import { CredentialService } from './registry-credentials.ts'
import { EndpointProgress } from './replica-barrier.ts'
import { SecretsSettingsService } from './secrets-settings.ts'
import { Subscriptions } from './subscriptions.ts'
import { ServerWatches } from './watches.ts'

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
  index: OwnAppends & DeliveryPlaces & UnfinishedDeliveries & Pick<Watch, 'reopen'>
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
    identity: accountIdentity(installationKey, parameterPrefix),
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
