/** Everything that the controller is made of, wired; nothing runs yet. */

import { shardOf } from '../ha/shard.ts'
import { ShardedReconciler } from '../ha/sharded-reconciler.ts'
import { Organizations } from '../kube/organizations.ts'
import { ReconcileLoop } from '../kube/reconcile-loop.ts'
import { MAX_TIMER_MS } from '../lib/sleep.ts'
import { DRAIN_TIMEOUT_MS } from '../webhooks/delivery/rest-lanes.ts'
import { EndpointRequests } from '../webhooks/endpoints/controller.ts'
import { SigningKeyReconciler } from '../webhooks/endpoints/endpoint-keeper.ts'
import { EventTypeStore } from '../webhooks/endpoints/event-types.ts'
import { DisabledNotifier } from '../webhooks/endpoints/notifier.ts'
import { EndpointReconciler } from '../webhooks/endpoints/reconcile-endpoint.ts'
import { SharedSecrets } from '../webhooks/endpoints/shared-secret.ts'
import { SigningKeyStore } from '../webhooks/endpoints/signing-keys.ts'
import { EventsReconciler } from '../webhooks/events/controller.ts'
import { Publisher } from '../webhooks/events/publisher.ts'
import { PublishQuota } from '../webhooks/events/quota.ts'
import { WebhookEventStore } from '../webhooks/events/store.ts'
import { UnconfirmedAppends } from '../webhooks/events/unseen-events.ts'
import {
  createDeliveryComponents,
  type DeliveryComponents,
  type DeliveryComponentsOptions,
} from './delivery-parts.ts'

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
    book,
    counters,
    unconfirmed: unseen,
    quota: room,
    events: world.events,
    time: delivery.retention.time,
    onNotDeleted: (error) =>
      log.warn('Events that have expired could not be deleted; trying again', { error }),
  })
  counters.onEventSeen = (name) => unseen.seen(name)
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
