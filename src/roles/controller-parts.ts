/** Everything that the controller is made of, wired; nothing runs yet. */
import { Catalogue } from '../controllers/catalogue.ts'
import { LONGEST_REST_MS } from '../controllers/delivery/rest-lanes.ts'
import { EndpointKeeper } from '../controllers/endpoint/endpoint-keeper.ts'
import { EndpointRequests } from '../controllers/endpoint/endpoint-requests.ts'
import { OwnerNotice } from '../controllers/endpoint/owner-notice.ts'
import { EndpointReconciler } from '../controllers/endpoint/reconcile-endpoint.ts'
import { SharedSecrets } from '../controllers/endpoint/shared-secret.ts'
import { SigningKeyStore } from '../controllers/endpoint/signing-key-store.ts'
import { EventBook } from '../controllers/event/event-book.ts'
import { EventsReconciler } from '../controllers/event/reconcile-events.ts'
import { UnseenEvents } from '../controllers/event/unseen-events.ts'
import { Organizations } from '../controllers/organizations.ts'
import { IntakeRoom } from '../controllers/publish/intake-room.ts'
import { Publisher } from '../controllers/publish/publisher.ts'
import { shardOf } from '../domain/shard.ts'
import { LONGEST_TIMER_MS } from '../runtime/pause.ts'
import { ReconcileLoop } from '../runtime/reconcile-loop.ts'
import { ShardedReconciler } from '../runtime/shards/sharded-reconciler.ts'
import { createDeliveryParts, type DeliveryParts, type DeliveryPartsOptions } from './delivery-parts.ts'

export type ControllerParts = DeliveryParts & {
  organizations: Organizations
  catalogue: Catalogue
  book: EventBook
  keyStore: SigningKeyStore
  sharedSecrets: SharedSecrets
  notice: OwnerNotice
  endpointLoop: ReconcileLoop
  endpointPasses: ShardedReconciler
  eventLoop: ReconcileLoop
  eventPasses: ShardedReconciler
  /** What `eventPasses` passes on to. */
  eventsReconciler: EventsReconciler
}

export type ControllerPartsOptions = DeliveryPartsOptions & {
  /** Every segment of the log up to this version was taken in. */
  shownUpTo: () => number
}

/** What both loops look at. */
type Shared = ControllerPartsOptions & {
  delivery: DeliveryParts
  organizations: Organizations
  catalogue: Catalogue
}

export function createControllerParts(options: ControllerPartsOptions): ControllerParts {
  const delivery = createDeliveryParts(options)
  const organizations = new Organizations(options.config.formerOrganizations)
  const catalogue = new Catalogue()
  const shared = { ...options, delivery, organizations, catalogue }
  return { ...delivery, organizations, catalogue, ...createEndpointLoop(shared), ...createEventLoop(shared) }
}

function createEndpointLoop({ config, world, delivery, organizations, catalogue, shards }: Shared) {
  const { api, clock, random, log, metrics, events } = world
  const { directory, statuses, keys, eventLog } = delivery
  const keyStore = new SigningKeyStore(api, directory, config.namespace)
  const sharedSecrets = new SharedSecrets({ resources: api, directory, clock })
  const publisher = new Publisher({ log: eventLog, keys, directory, clock })
  const notice = new OwnerNotice({
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
    keeper: new EndpointKeeper({ store: keyStore, shared: sharedSecrets, events, clock, random }),
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
    longestMs: LONGEST_REST_MS,
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
  const { config, world, delivery, organizations, catalogue, shards, shownUpTo } = shared
  const { api, clock, random, log, metrics, validator } = world
  const { keys, eventLog, plane, written } = delivery
  const book = new EventBook()
  const unseen = new UnseenEvents(clock, shownUpTo)
  const { tally } = plane
  const room = new IntakeRoom({
    tally,
    unseen,
    written,
    lanes: () => plane.lanes.values(),
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
    book,
    tally,
    unseen,
    room,
    events: world.events,
    time: delivery.retention.time,
    onNotDeleted: (error) =>
      log.warn('Events that have expired could not be deleted; trying again', { error }),
  })
  tally.onEventSeen = (name) => unseen.seen(name)
  const eventPasses = new ShardedReconciler({
    reconciler: eventsReconciler,
    ownership: shards,
    shardOf,
    clock,
    // Its appends are several shards', and none that another replica decides of anew may be under way.
    longestMs: LONGEST_TIMER_MS,
  })
  const eventLoop = new ReconcileLoop({
    name: 'webhook-event',
    reconciler: eventPasses,
    clock,
    random,
    log,
    metrics,
  })
  tally.onEventDone = (name, version) => {
    const namespace = eventsReconciler.delivered(name, version)
    if (namespace !== undefined) eventLoop.add(namespace)
  }
  return { book, eventLoop, eventPasses, eventsReconciler }
}
