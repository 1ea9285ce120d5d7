import { AccountIdentity } from '../credentials/accounts/identity.ts'
import type { ParameterListing, ParameterStore } from '../credentials/cloud.ts'
import type { ResourceReader, ResourceWriter, WatchSource } from '../kube/client.ts'
import { Informer } from '../kube/informer.ts'
import { Organizations } from '../kube/organizations.ts'
import type { Usage } from '../lib/fair-queue.ts'
import type { SchemaValidator } from '../lib/json-schema.ts'
import type { Logger } from '../lib/log.ts'
import type { CredentialMetrics, LogMetrics, RuntimeMetrics } from '../lib/metrics.ts'
import { deriveKey } from '../lib/text.ts'
import type { Clock, Random } from '../lib/time.ts'
import type { UrlPolicy } from '../net/egress-policy.ts'
import { EndpointDirectory } from '../webhooks/endpoints/directory.ts'
import { EventTypeStore } from '../webhooks/endpoints/event-types.ts'
import { type IntakeLimits, PublishQuota } from '../webhooks/events/quota.ts'
import type { LogStore } from '../webhooks/log/log-store.ts'
import type { EventLog } from '../webhooks/log/store.ts'
import { createEventLog } from '../webhooks/log/writers.ts'
import { ByteWindow } from '../webhooks/log/written-bytes.ts'
import { BoxTemplateService } from './box-templates.ts'
import { CredentialDirectory } from './credential-resource.ts'
import { CredentialService } from './credentials.ts'
import type { OpenDeliveryIndex } from './delivery-index/delivery-index.ts'
import { LiveControllers } from './endpoint-writes.ts'
import { EndpointService } from './endpoints.ts'
import { EventService } from './events.ts'
import { withLogProblems } from './http/problems.ts'
import { Idempotency, IdempotencyCache } from './idempotent-requests.ts'
import { removeExpiredReservationsForever } from './object-quota.ts'
import {
  apiLeaseKind,
  apiLeases,
  EndpointProgress,
  PeerServers,
  ReplicaBarrier,
  ReplicaHeartbeat,
} from './peers.ts'
import { PublishCounts } from './publish-counts.ts'
import { PublishingService, Subscriptions } from './publishing.ts'
import { SecretsSettingsService } from './secrets-settings.ts'
import { EventStreams } from './stream/event-streams.ts'
import { ServerWatches } from './watches.ts'

/** Wires the services behind the routes of the REST server, with the watches and the peer replicas that they depend on. */

export type ServerServicesOptions = {
  api: ResourceReader & ResourceWriter & WatchSource
  /** The delivery log. */
  store: LogStore
  /** Davit's own namespace. */
  namespace: string
  /** Name of this process in the log and among the replicas. */
  writer: string
  /** A replica that has not renewed its Lease for so many milliseconds counts as gone. */
  leaseMs: number
  /** Of Leases, if that is not `clock`. */
  leaseClock?: Clock
  installationKey: Uint8Array
  limits: {
    endpointsPerOrganization: number
    credentialsPerOrganization: number
    intake: IntakeLimits
    /** Idempotency-Keys that may be held. */
    keys: Usage
  }
  /** The accounts of organizations. */
  cloud: ParameterStore & ParameterListing
  parameterPrefix: string
  /** Organizations that a restore has recreated (organizations.ts). */
  formerOrganizations?: Iterable<readonly [uid: string, before: string]>
  index: OpenDeliveryIndex
  clock: Clock
  random: Random
  log: Logger
  metrics: LogMetrics & RuntimeMetrics & CredentialMetrics
  validator: SchemaValidator
  urlGuard: UrlPolicy
}

export type ServerServices = ReturnType<typeof createServerServices>

export function createServerServices(options: ServerServicesOptions) {
  const { api, namespace, clock, limits, installationKey, index } = options
  const organizations = new Organizations(options.formerOrganizations)
  const catalogue = new EventTypeStore()
  const directory = new EndpointDirectory()
  const credentialDirectory = new CredentialDirectory()
  const cache = new IdempotencyCache(clock, limits.keys)
  const written = new ByteWindow(clock, { maxPerKey: limits.intake.writtenBytes.organization })
  index.onObjectWritten = (organization, bytes) => written.add(organization, bytes)
  const counts = new PublishCounts(index, directory, clock)
  const log = createEventLog(options)
  const progress: EndpointProgress = new EndpointProgress({
    seen: () => watches.endpoints.version,
    onChange: () => {
      replicas.heartbeat.changed()
      replicas.peers.lookAgain()
    },
  })
  const stores = {
    organizations,
    catalogue,
    directory,
    credentials: credentialDirectory,
    cache,
    log: options.store,
    written,
    progress,
  }
  const watches = new ServerWatches(stores, options, index)
  const replicas = createReplicas(options, watches)
  const guardedLog = withLogProblems(log)
  const eventLog: EventLog = {
    append: async (events) => {
      const place = await guardedLog.append(events)
      watches.appended(place.version)
      return place
    },
  }
  const keys = new Idempotency({
    ...options,
    cache,
    eventLog,
    organizations,
    hashKey: deriveKey('idempotency', installationKey),
    behind: () => watches.problemOf('idempotency keys') ?? watches.problemOf('organizations'),
  })
  const behind = () => replicas.heartbeat.clientProblem ?? watches.problemOf('endpoints')
  const identity = new AccountIdentity(installationKey, options.parameterPrefix)
  const shared = { ...options, resources: api, organizations, directory, catalogue, keys, identity, behind }
  return {
    endpoints: new EndpointService({
      ...shared,
      replicas: new ReplicaBarrier(replicas.peers, progress),
      controllers: new LiveControllers(api, namespace, options.leaseClock ?? clock),
      maxEndpoints: limits.endpointsPerOrganization,
    }),
    publishing: new PublishingService({
      ...shared,
      eventLog,
      subscriptions: new Subscriptions(directory),
      index,
      counts,
      quota: new PublishQuota({
        counters: counts,
        unconfirmed: { total: 0, ofOrganization: () => 0 },
        written,
        queues: (organization) => counts.fullest(organization),
        limits: limits.intake,
      }),
    }),
    events: new EventService(options),
    streams: new EventStreams({ ...options, messages: index }),
    credentials: new CredentialService({
      ...shared,
      directory: credentialDirectory,
      behind: () => watches.problemOf('registry credentials'),
      parameters: options.cloud,
      maxCredentials: limits.credentialsPerOrganization,
    }),
    settings: new SecretsSettingsService(shared),
    boxTemplates: new BoxTemplateService(shared),
    keys,
    organizations,
    catalogue,
    directory,
    /** Whether peers wait for what this replica has not seen, the age of its Lease, and the changes that wait for peers. */
    replicas: () => {
      const { isWaitedFor, leaseAgeMs } = replicas.heartbeat
      return { isWaitedFor, leaseAgeMs, waiting: replicas.peers.waiting }
    },
    /** The longest wait for an append in milliseconds, the bytes that all processes wrote in ten minutes, and those of unfinished deliveries. */
    publishStats: () => ({
      oldestMs: log.oldestMs(),
      writtenBytes: written.total,
      openBytes: counts.bodies.total,
    }),
    start: () => {
      watches.start()
      replicas.start()
    },
    /** Resolves when everything was read once. */
    ready: watches.ready,
    /** What is still being read or cannot be watched, in words. */
    problems: () => [...new Set([...watches.problems(), replicas.heartbeat.problem ?? []].flat())],
    /** Appends what waits to be appended, then stops everything. */
    stop: async () => {
      await log.drain()
      await replicas.leave()
      await watches.stop()
    },
  }
}

function createReplicas(options: ServerServicesOptions, watches: ServerWatches) {
  const { api, namespace, writer, leaseMs, leaseClock: clock = options.clock, random, log } = options
  const shared = {
    name: writer,
    leaseMs,
    records: apiLeases({ resources: api, namespace, clock, deadlineMs: (leaseMs * 2) / 9 }),
    clock,
    log,
  }
  const stopping = new AbortController()
  const peers: PeerServers = new PeerServers({
    ...shared,
    isWatching: () => records.isListed && records.health.disconnectedForMs() === 0,
  })
  const records = new Informer(
    {
      ...apiLeaseKind(namespace),
      handler: { applied: (record) => peers.heard(record), deleted: () => peers.lookAgain() },
    },
    options,
  )
  const heartbeat = new ReplicaHeartbeat({
    ...shared,
    session: `${writer}.${Buffer.from(random.bytes(6)).toString('hex')}`,
    watch: watches.endpoints,
    read: () => watches.readEndpoints(),
    behind: () => watches.problemOf('endpoints'),
  })
  let collecting: Promise<unknown> = Promise.resolve()
  return {
    peers,
    heartbeat,
    start: () => {
      heartbeat.start()
      records.start()
      collecting = Promise.all([
        peers.collectExpiredForever(stopping.signal),
        removeExpiredReservationsForever({ resources: api, namespace, clock, log }, stopping.signal),
      ])
    },
    leave: async () => {
      stopping.abort()
      await Promise.all([heartbeat.leave(), collecting, records.stop()])
    },
  }
}
