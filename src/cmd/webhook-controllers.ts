import { getHeapStatistics } from 'node:v8'
import { deliveryObjectName } from '../apis/ids.ts'
import { shardOf } from '../ha/assignment.ts'
import { ShardedReconciler, type ShardOwnership } from '../ha/ownership.ts'
import { Organizations } from '../kube/organizations.ts'
import { ReconcileLoop } from '../kube/reconcile-loop.ts'
import { MAX_TIMER_MS } from '../lib/time.ts'
import { cancelHeld } from '../webhooks/delivery/cancel.ts'
import { DeliveryEngine, DRAIN_TIMEOUT_MS } from '../webhooks/delivery/engine.ts'
import { LogFollower } from '../webhooks/delivery/log-follower.ts'
import { OpenSegments } from '../webhooks/delivery/low-water-mark.ts'
import { DeliveryObjects } from '../webhooks/delivery/objects.ts'
import { Payloads } from '../webhooks/delivery/payloads.ts'
import { EndpointReconciler } from '../webhooks/endpoints/controller.ts'
import {
  EndpointDirectory,
  type EndpointIdentity,
  EndpointStatusWriter,
} from '../webhooks/endpoints/directory.ts'
import { EventTypeStore } from '../webhooks/endpoints/event-types.ts'
import { EndpointHealth } from '../webhooks/endpoints/health.ts'
import { LastAttempts } from '../webhooks/endpoints/last-attempts.ts'
import { DisabledNotifier } from '../webhooks/endpoints/notifier.ts'
import { SharedSecrets, SigningKeyReconciler, SigningKeyStore } from '../webhooks/endpoints/signing-keys.ts'
import { EventsReconciler } from '../webhooks/events/controller.ts'
import { Publisher } from '../webhooks/events/publish.ts'
import { PublishQuota } from '../webhooks/events/quota.ts'
import { UnconfirmedAppends, WebhookEventStore } from '../webhooks/events/store.ts'
import { INLINE_PAYLOAD_BYTES } from '../webhooks/log/codec.ts'
import { BegunAttempts } from '../webhooks/log/crash-series.ts'
import { ShardClaims } from '../webhooks/log/fencing.ts'
import { DedupeIndex } from '../webhooks/log/idempotency-keys.ts'
import type { LogStore } from '../webhooks/log/log-store.ts'
import { Retention } from '../webhooks/log/retention-loop.ts'
import { SegmentBodies } from '../webhooks/log/segment-bodies.ts'
import { createEventLog, createOutcomeLog, type OpenOutcomeLog } from '../webhooks/log/writers.ts'
import { ByteWindow } from '../webhooks/log/written-bytes.ts'
import type { Config } from './config.ts'
import type { ControllerDependencies } from './dependencies.ts'

/**
 * Builds everything that webhooks need: the delivery log with its retention, the delivery engine, and the loops of endpoints and
 * events. Nothing runs yet; `controller.ts` connects it to the watches.
 */

export type WebhookOptions = {
  config: Config
  dependencies: ControllerDependencies
  version: string
  /** The delivery log. */
  store: LogStore
  /** Every delivery up to this version of the log is closed. */
  lowWater: number
  /** Which shards this replica may work on. */
  shards: ShardOwnership
  /** Whether its Lease is valid, so that the API server is written to at all. */
  mayWrite: () => boolean
  /** The name under which this start of the replica writes to the log. */
  session: string
  /** Every segment of the log up to this version was observed. */
  observedVersion: () => number
  /** Called when the log cannot be followed any more: only a new process can tell what is open. */
  onLost: () => void
  /** Called when another replica has claimed shards that this one drives. */
  onClaimedElsewhere: (shards: readonly number[]) => void
  giveUp: AbortSignal
}

export type WebhookLoops = ReturnType<typeof buildDelivery> &
  ReturnType<typeof buildEndpointLoop> &
  ReturnType<typeof buildEventLoop> & { organizations: Organizations; catalogue: EventTypeStore }

export function buildWebhookLoops(options: WebhookOptions): WebhookLoops {
  const delivery = buildDelivery(options)
  const organizations = new Organizations(options.config.formerOrganizations)
  const catalogue = new EventTypeStore()
  const shared = { ...options, ...delivery, organizations, catalogue }
  return { ...delivery, organizations, catalogue, ...buildEndpointLoop(shared), ...buildEventLoop(shared) }
}

/** Of the log's limit, for what cannot be deleted because the object of a delivery before it is rejected. */
const KEPT_SHARE = 1 / 4
/** Of the heap, for bodies in memory. */
const PAYLOAD_SHARE = 1 / 4
/** Of those bytes, for bodies of segments that were read again. */
const READ_AGAIN_SHARE = 1 / 4

function createPayloads({ config, dependencies, store }: WebhookOptions): Payloads {
  const { metrics } = dependencies
  const maxBytes = Math.min(config.limits.payloadBytes, getHeapStatistics().heap_size_limit * PAYLOAD_SHARE)
  const readAgain = Math.ceil(maxBytes * READ_AGAIN_SHARE)
  const bodies = new SegmentBodies({
    store,
    maxBytes: readAgain,
    onRead: (bytes) => metrics.payloadsRead(bytes),
  })
  return new Payloads(maxBytes - readAgain, bodies)
}

function buildDelivery(options: WebhookOptions) {
  const { config, dependencies, giveUp, store } = options
  const { api, clock } = dependencies
  const directory = new EndpointDirectory()
  const statuses = new EndpointStatusWriter(api, directory, dependencies.log)
  const segments = new OpenSegments(options.lowWater)
  const log = { ...dependencies, resources: api, store, writer: options.session }
  const outcomes: OpenOutcomeLog = createOutcomeLog({
    ...log,
    lowWater: () => segments.lowWater,
    mayWrite: options.mayWrite,
    signal: giveUp,
    share: () => engine.queues.shareOfShards,
  })
  const written = new ByteWindow(clock, { maxPerKey: config.intake.writtenBytes.organization })
  const eventLog = createEventLog(log)
  const retention: Retention = new Retention({
    ...log,
    limits: config.retention,
    directory,
    lowWater: () => segments.lowWater,
    isClosed: (position) => segments.isClosed(position),
    healthy: () => outcomes.healthy(),
    share: () => engine.queues.shareOfShards,
    isOurs: (shard) => engine.queues.isOurs(shard),
    cancelHeld: (now) => cancelHeld(engine.ctx, engine.queues.ours(), config.retention, now),
    eventLog,
  })
  const payloads = createPayloads(options)
  const objects = new DeliveryObjects(api, payloads, clock, {
    // What the other replicas write is not seen here: as much for each of their shards, as far as can be known.
    onWritten: (organization, bytes) =>
      written.add(organization, Math.round(bytes / (engine.queues.shareOfShards || 1))),
    onReferred: (object, segment) => retention.payloadReferred(object, segment),
  })
  const streaks = new EndpointHealth(statuses, clock, options.shards)
  const lastAttempts = new LastAttempts(clock)
  directory.listen({ changed: () => undefined, removed: ({ metadata }) => lastAttempts.remove(metadata.uid) })
  const engine = new DeliveryEngine({
    ...log,
    directory,
    statuses,
    streaks,
    lastAttempts,
    objects,
    payloads,
    outcomes,
    segments,
    keptInLog: {
      ageMs: config.retention.succeededMs,
      bytes: config.retention.maxLogBytes * KEPT_SHARE,
      deliveries: config.intake.pending.all,
    },
    ages: retention.time,
    claims: new ShardClaims(),
    begun: new BegunAttempts(),
    shards: options.shards,
    namespace: config.namespace,
    userAgent: `Davit/${options.version}`,
    waitScale: config.waitScale,
    giveUp,
    maxInFlight: config.limits.inFlight,
    viewsPerSecond: config.limits.viewsPerSecond,
    onViewWritten: (delivery) => retention.endedWithObject(delivery, 'succeeded'),
    onEnded: (delivery, state, object) => {
      if (object) retention.endedWithObject(delivery, state)
    },
    onDropped: (delivery) => retention.objectGone(delivery),
  })
  engine.views.onAbandoned = (delivery) => retention.viewAbandoned(delivery)
  const unconfirmed = new UnconfirmedAppends(clock, options.observedVersion)
  const quota = new PublishQuota({
    counters: engine.counters,
    unconfirmed,
    written,
    queues: () => engine.queues.values(),
    limits: config.intake,
  })
  const dedupeIndex = new DedupeIndex()
  const follower = new LogFollower({
    engine,
    keys: dedupeIndex,
    writer: options.session,
    onLost: options.onLost,
    onClaimedElsewhere: options.onClaimedElsewhere,
    onPromotedElsewhere: ({ event, endpoint }, segment) => {
      if (event.bodyBytes <= INLINE_PAYLOAD_BYTES) return
      const name = deliveryObjectName(event.id, endpoint.uid)
      retention.payloadReferred({ namespace: event.namespace, name }, segment)
    },
  })
  return {
    directory,
    statuses,
    outcomes,
    eventLog,
    dedupeIndex,
    engine,
    follower,
    streaks,
    lastAttempts,
    retention,
    unconfirmed,
    quota,
    /** What all processes wrote for each organization in the last ten minutes. */
    written,
  }
}

type Shared = WebhookOptions &
  ReturnType<typeof buildDelivery> & { organizations: Organizations; catalogue: EventTypeStore }

function buildEndpointLoop(shared: Shared) {
  const { config, dependencies, directory, engine, lastAttempts, shards } = shared
  const { api, clock, events, urlGuard } = dependencies
  const { namespace } = config
  const keyStore = new SigningKeyStore(api, directory, namespace)
  const sharedSecrets = new SharedSecrets(api, directory, clock)
  const publisher = new Publisher({ log: shared.eventLog, keys: shared.dedupeIndex, directory, clock })
  const notifier = new DisabledNotifier({ ...dependencies, ...shared, heldMs: config.retention.failedMs })
  const reconciler = new EndpointReconciler({
    ...shared,
    signingKeys: new SigningKeyReconciler({ ...dependencies, keyStore, sharedSecrets, recorder: events }),
    publisher,
    resources: api,
    retentionMs: config.retention.succeededMs,
    notifier,
    recorder: events,
    quota: shared.quota,
    clock,
    leftOut: (uid) => engine.queues.get(uid)?.leftOut,
    rejectedObject: (uid) => engine.queues.get(uid)?.rejection,
    attempts: (uid) => lastAttempts.of(uid),
    urlGuard,
  })
  const endpointPasses = new ShardedReconciler({
    reconciler,
    ownership: shards,
    shardOf: (key) => {
      const [namespace = '', name = ''] = key.split('/')
      const view = directory.get(namespace, name)
      return view && shardOf(view.endpoint.metadata.uid)
    },
    clock,
    longestMs: DRAIN_TIMEOUT_MS,
  })
  const endpointLoop = new ReconcileLoop({
    ...dependencies,
    name: 'webhook-endpoint',
    reconciler: endpointPasses,
    // A pass may search the log: those of one organization take turns, and leave the other workers to the rest.
    concurrencyGroupOf: (key) => ({ name: key.split('/')[0] ?? '', limit: 1 }),
  })
  const look = ({ namespace, name }: EndpointIdentity) => endpointLoop.add(`${namespace}/${name}`)
  engine.views.onLeftOut = look
  engine.onRejected = look
  lastAttempts.onDue = look
  return { keyStore, sharedSecrets, notifier, endpointLoop, endpointPasses }
}

function buildEventLoop(shared: Shared) {
  const { dependencies, engine, quota, shards, unconfirmed } = shared
  const { api, clock, log } = dependencies
  const { counters } = engine
  const book = new WebhookEventStore()
  const eventsReconciler = new EventsReconciler({
    ...dependencies,
    recorder: dependencies.events,
    resources: api,
    writer: api,
    organizations: shared.organizations,
    catalogue: shared.catalogue,
    keys: shared.dedupeIndex,
    log: shared.eventLog,
    store: book,
    counters,
    unconfirmed,
    quota,
    time: shared.retention.time,
    onNotDeleted: (error) =>
      log.warn('expired_events_delete_failed', 'failed to delete expired events; retrying', { error }),
  })
  const eventPasses = new ShardedReconciler({
    reconciler: eventsReconciler,
    ownership: shards,
    shardOf,
    clock,
    // A pass appends events of several shards; no other replica may decide on them while it runs, however long that takes.
    longestMs: MAX_TIMER_MS,
  })
  const eventLoop = new ReconcileLoop({ ...dependencies, name: 'webhook-event', reconciler: eventPasses })
  counters.onEventSeen = (name) => unconfirmed.confirm(name)
  counters.onEventDone = (name, version) => {
    const namespace = eventsReconciler.delivered(name, version)
    if (namespace !== undefined) eventLoop.add(namespace)
  }
  return { book, eventLoop, eventPasses, eventsReconciler }
}
