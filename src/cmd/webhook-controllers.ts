import { deliverySegments } from '../apis/delivery-segment.ts'
import { deliveryObjectName } from '../apis/ids.ts'
import type { ResourceType } from '../apis/meta.ts'
import { outcomeSegments } from '../apis/outcome-segment.ts'
import { shardOf } from '../ha/assignment.ts'
import { ShardedReconciler, type ShardOwnership } from '../ha/ownership.ts'
import { Organizations } from '../kube/organizations.ts'
import { ReconcileLoop } from '../kube/reconcile-loop.ts'
import { MAX_TIMER_MS } from '../lib/sleep.ts'
import { cancelHeld } from '../webhooks/delivery/cancel.ts'
import { DeliveryEngine, DRAIN_TIMEOUT_MS } from '../webhooks/delivery/engine.ts'
import { LogFollower } from '../webhooks/delivery/log-follower.ts'
import { DeliveryObjects } from '../webhooks/delivery/objects.ts'
import { OpenSegments } from '../webhooks/delivery/queue.ts'
import { EndpointReconciler, EndpointRequests } from '../webhooks/endpoints/controller.ts'
import { EndpointDirectory, EndpointStatusWriter } from '../webhooks/endpoints/directory.ts'
import { EventTypeStore } from '../webhooks/endpoints/event-types.ts'
import { EndpointHealth } from '../webhooks/endpoints/health.ts'
import { DisabledNotifier } from '../webhooks/endpoints/notifier.ts'
import { SharedSecrets, SigningKeyReconciler, SigningKeyStore } from '../webhooks/endpoints/signing-keys.ts'
import { EventsReconciler } from '../webhooks/events/controller.ts'
import { Publisher } from '../webhooks/events/publish.ts'
import { ByteWindow, PublishQuota } from '../webhooks/events/quota.ts'
import { UnconfirmedAppends, WebhookEventStore } from '../webhooks/events/store.ts'
import { byteLength, INLINE_PAYLOAD_BYTES } from '../webhooks/log/codec.ts'
import { DedupeIndex } from '../webhooks/log/dedupe.ts'
import {
  createEventLog,
  createOutcomeLog,
  firstNameReader,
  type OpenEventLog,
  type OpenOutcomeLog,
  SegmentNamer,
} from '../webhooks/log/kubernetes-store.ts'
import { Retention } from '../webhooks/log/retention.ts'
import type { Config } from './config.ts'
import type { ControllerDependencies } from './dependencies.ts'

/** The delivery plane with its log, its retention, and what it knows of endpoints. */

type DeliveryComponents = {
  directory: EndpointDirectory
  statuses: EndpointStatusWriter
  outcomes: OpenOutcomeLog
  eventLog: OpenEventLog
  /** Of either sequence, whose watch tells what there is. */
  segmentNamers: { segments: SegmentNamer; outcomes: SegmentNamer }
  dedupeIndex: DedupeIndex
  engine: DeliveryEngine
  follower: LogFollower
  streaks: EndpointHealth
  retention: Retention
  /** What was written for each organization in the last ten minutes. */
  written: ByteWindow
}

/** Old versions of objects take room until the store is compacted, which takes five to ten minutes. */
const WRITTEN_MINUTES = 10

type DeliveryComponentsOptions = {
  config: Config
  world: ControllerDependencies
  version: string
  /** Every delivery up to this version of the log is closed. */
  lowWater: number
  /** Which shards this replica may work on. */
  shards: ShardOwnership
  /** Its Lease is valid: what it writes is not refused. */
  mayWrite: () => boolean
  /** What this start of the replica writes under. */
  session: string
  /** The log cannot be followed any more: only a new start can tell what is open. */
  onLost: () => void
  /** Another replica has claimed shards that this one drives. */
  onClaimedElsewhere: (shards: readonly number[]) => void
  giveUp: AbortSignal
}

function createDeliveryComponents(options: DeliveryComponentsOptions): DeliveryComponents {
  const { config, world, giveUp } = options
  const { api, clock, random, metrics } = world
  const directory = new EndpointDirectory()
  const statuses = new EndpointStatusWriter(api, directory)
  const segments = new OpenSegments(options.lowWater)
  const log = { resources: api, namespace: config.namespace, writer: options.session, clock, random, metrics }
  const namesOf = (type: ResourceType) =>
    new SegmentNamer({ clock, random, first: firstNameReader(api, type, config.namespace) })
  const names = { segments: namesOf(deliverySegments), outcomes: namesOf(outcomeSegments) }
  const outcomes = createOutcomeLog({
    ...log,
    names: names.outcomes,
    lowWater: () => segments.lowWater,
    mayWrite: options.mayWrite,
    signal: giveUp,
    share: () => engine.queues.shareOfShards,
  })
  const retention = new Retention({
    ...log,
    log: world.log,
    limits: config.retention,
    directory,
    lowWater: () => segments.lowWater,
    healthy: () => outcomes.healthy(),
    share: () => engine.queues.shareOfShards,
    isOurs: (shard) => engine.queues.isOurs(shard),
    cancelHeld: (now) =>
      cancelHeld({ ctx: engine.ctx, lanes: engine.queues.ours(), limits: config.retention }, now),
    eventLog: { append: (events) => eventLog.append(events) },
  })
  const written = new ByteWindow(clock, WRITTEN_MINUTES)
  const onWritten = (organization: string, bytes: number) => written.add(organization, bytes)
  const objects = new DeliveryObjects(api, clock, {
    onWritten,
    onReferred: (object, segment) => retention.payloadReferred(object, segment),
  })
  const streaks = new EndpointHealth(statuses, clock, options.shards)
  const engine = new DeliveryEngine({
    ...world,
    directory,
    statuses,
    streaks,
    resources: api,
    objects,
    outcomes,
    segments,
    shards: options.shards,
    namespace: config.namespace,
    userAgent: `Davit/${options.version}`,
    waitScale: config.waitScale,
    giveUp,
    maxInFlight: config.limits.inFlight,
    onEnded: (delivery, state, object) => {
      if (object) retention.endedWithObject(delivery, state)
    },
    onDropped: (delivery) => retention.objectGone(delivery),
  })
  const keys = new DedupeIndex()
  const follower = new LogFollower({
    engine,
    keys,
    writer: options.session,
    onLost: options.onLost,
    onClaimedElsewhere: options.onClaimedElsewhere,
    onPromotedElsewhere: ({ event, endpoint }, segment) => {
      if (byteLength(event.payload) <= INLINE_PAYLOAD_BYTES) return
      const name = deliveryObjectName(event.id, endpoint.uid)
      retention.payloadReferred({ namespace: event.namespace, name }, segment)
    },
  })
  const eventLog = createEventLog({ ...log, names: names.segments, onWritten })
  return {
    directory,
    statuses,
    outcomes,
    eventLog,
    segmentNamers: names,
    dedupeIndex: keys,
    engine: engine,
    follower,
    streaks,
    retention,
    written,
  }
}

/** Everything that the controller is made of, wired; nothing runs yet. */

export type WebhookControllers = DeliveryComponents & {
  organizations: Organizations
  catalogue: EventTypeStore
  book: WebhookEventStore
  keyStore: SigningKeyStore
  sharedSecrets: SharedSecrets
  notice: DisabledNotifier
  endpointLoop: ReconcileLoop
  endpointPasses: ShardedReconciler
  eventLoop: ReconcileLoop
  eventPasses: ShardedReconciler
  /** What `eventPasses` passes on to. */
  eventsReconciler: EventsReconciler
}

export type WebhookControllersOptions = DeliveryComponentsOptions & {
  /** Every segment of the log up to this version was taken in. */
  observedVersion: () => number
}

/** What both loops look at. */
type Shared = WebhookControllersOptions & {
  delivery: DeliveryComponents
  organizations: Organizations
  catalogue: EventTypeStore
}

export function createWebhookControllers(options: WebhookControllersOptions): WebhookControllers {
  const delivery = createDeliveryComponents(options)
  const organizations = new Organizations(options.config.formerOrganizations)
  const catalogue = new EventTypeStore()
  const shared = { ...options, delivery, organizations, catalogue }
  return { ...delivery, organizations, catalogue, ...createEndpointLoop(shared), ...createEventLoop(shared) }
}

function createEndpointLoop({ config, world, delivery, organizations, catalogue, shards }: Shared) {
  const { api, clock, random, log, metrics, events } = world
  const { directory, statuses, dedupeIndex: keys, eventLog } = delivery
  const keyStore = new SigningKeyStore(api, directory, config.namespace)
  const sharedSecrets = new SharedSecrets({ resources: api, directory, clock })
  const publisher = new Publisher({ log: eventLog, keys, directory, clock })
  const notice = new DisabledNotifier({
    mailer: world.mailer,
    organizations,
    directory,
    statuses,
    shards,
    clock,
    log,
    metrics,
  })
  const reconciler = new EndpointReconciler({
    directory,
    statuses,
    organizations,
    catalogue,
    keeper: new SigningKeyReconciler({ store: keyStore, shared: sharedSecrets, events, clock, random }),
    requests: new EndpointRequests({ publisher, events, resources: api, namespace: config.namespace }),
    notice,
    events,
    clock,
    refuseUrl: (url) => {
      const verdict = world.urlGuard.check(url)
      return verdict.ok ? undefined : verdict.reason
    },
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
    name: 'webhook-endpoint',
    reconciler: endpointPasses,
    clock,
    random,
    log,
    metrics,
  })
  return { keyStore, sharedSecrets, notice, endpointLoop, endpointPasses }
}

function createEventLoop(shared: Shared) {
  const { config, world, delivery, organizations, catalogue, shards, observedVersion } = shared
  const { api, clock, random, log, metrics, validator } = world
  const { dedupeIndex: keys, eventLog, engine, written } = delivery
  const book = new WebhookEventStore()
  const unseen = new UnconfirmedAppends(clock, observedVersion)
  const { counters } = engine
  const room = new PublishQuota({
    counters,
    unconfirmed: unseen,
    written,
    queues: () => engine.queues.values(),
    limits: config.intake,
  })
  const eventsReconciler = new EventsReconciler({
    resources: api,
    writer: api,
    organizations,
    catalogue,
    validator,
    keys,
    log: eventLog,
    clock,
    random,
    store: book,
    counters,
    unconfirmed: unseen,
    quota: room,
    recorder: world.events,
    time: delivery.retention.time,
    onNotDeleted: (error) =>
      log.warn('Events that have expired could not be deleted; trying again', { error }),
  })
  counters.onEventSeen = (name) => unseen.confirm(name)
  const eventPasses = new ShardedReconciler({
    reconciler: eventsReconciler,
    ownership: shards,
    shardOf,
    clock,
    // Its appends are several shards', and none that another replica decides of anew may be under way.
    longestMs: MAX_TIMER_MS,
  })
  const eventLoop = new ReconcileLoop({
    name: 'webhook-event',
    reconciler: eventPasses,
    clock,
    random,
    log,
    metrics,
  })
  counters.onEventDone = (name, version) => {
    const namespace = eventsReconciler.delivered(name, version)
    if (namespace !== undefined) eventLoop.add(namespace)
  }
  return { book, eventLoop, eventPasses, eventsReconciler }
}
