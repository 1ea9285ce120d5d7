/** Everything that the controller is made of, wired; nothing runs yet. */

import type { Config } from '../config.ts'
import { Catalogue } from '../controllers/catalogue.ts'
import { DeliveryObjects } from '../controllers/delivery/delivery-objects.ts'
import { DeliveryPlane } from '../controllers/delivery/delivery-plane.ts'
import { LogIntake } from '../controllers/delivery/log-intake.ts'
import { OpenSegments } from '../controllers/delivery/open-segments.ts'
import type { OpenEventLog } from '../controllers/delivery-log/event-log.ts'
import { createEventLog } from '../controllers/delivery-log/event-log.ts'
import { KeyIndex } from '../controllers/delivery-log/key-index.ts'
import { createOutcomeLog, type OpenOutcomeLog } from '../controllers/delivery-log/outcome-log.ts'
import { EndpointDirectory } from '../controllers/endpoint/endpoint-directory.ts'
import { EndpointKeeper } from '../controllers/endpoint/endpoint-keeper.ts'
import { EndpointRequests } from '../controllers/endpoint/endpoint-requests.ts'
import { EndpointStatusWriter } from '../controllers/endpoint/endpoint-status.ts'
import { EndpointStreaks } from '../controllers/endpoint/endpoint-streaks.ts'
import { OwnerNotice } from '../controllers/endpoint/owner-notice.ts'
import { EndpointReconciler } from '../controllers/endpoint/reconcile-endpoint.ts'
import { SharedSecrets } from '../controllers/endpoint/shared-secret.ts'
import { SigningKeyStore } from '../controllers/endpoint/signing-key-store.ts'
import { EventBook } from '../controllers/event/event-book.ts'
import { EventsReconciler } from '../controllers/event/reconcile-events.ts'
import { Organizations } from '../controllers/organizations.ts'
import { Publisher } from '../controllers/publish/publisher.ts'
import type { Clock, Random } from '../ports/clock.ts'
import type { EventRecorder } from '../ports/event-recorder.ts'
import type { ResourceReader, ResourceWriter, WatchSource } from '../ports/kubernetes.ts'
import type { Log } from '../ports/log.ts'
import type { Mailer } from '../ports/mailer.ts'
import type { DeliveryMetrics, LogMetrics, RuntimeMetrics } from '../ports/metrics.ts'
import type { SchemaValidator } from '../ports/schema-validator.ts'
import type { UrlGuard } from '../ports/url-guard.ts'
import type { WebhookSender } from '../ports/webhook-sender.ts'
import { ReconcileLoop } from '../runtime/reconcile-loop.ts'

/** What the world provides. */
export type World = {
  api: ResourceReader & ResourceWriter & WatchSource
  clock: Clock
  random: Random
  log: Log
  metrics: DeliveryMetrics & LogMetrics & RuntimeMetrics
  sender: WebhookSender
  urlGuard: UrlGuard
  events: EventRecorder
  validator: SchemaValidator
  mailer?: Mailer | undefined
}

export type ControllerParts = {
  directory: EndpointDirectory
  organizations: Organizations
  catalogue: Catalogue
  book: EventBook
  keyStore: SigningKeyStore
  sharedSecrets: SharedSecrets
  outcomes: OpenOutcomeLog
  eventLog: OpenEventLog
  plane: DeliveryPlane
  intake: LogIntake
  endpointLoop: ReconcileLoop
  eventLoop: ReconcileLoop
}

export type PartsOptions = {
  config: Config
  world: World
  version: string
  /** Every delivery up to this version of the log is closed. */
  lowWater: number
  giveUp: AbortSignal
}

export function createControllerParts(options: PartsOptions): ControllerParts {
  const { config, world, giveUp } = options
  const { api, clock, random, log, metrics, events } = world
  const directory = new EndpointDirectory()
  const organizations = new Organizations()
  const catalogue = new Catalogue()
  const statuses = new EndpointStatusWriter(api, directory)
  const segments = new OpenSegments(options.lowWater)
  const logOptions = {
    resources: api,
    namespace: config.namespace,
    writer: config.replica,
    clock,
    random,
    metrics,
  }
  const outcomes = createOutcomeLog({ ...logOptions, lowWater: () => segments.lowWater, signal: giveUp })
  const eventLog = createEventLog(logOptions)
  const plane = new DeliveryPlane({
    ...world,
    directory,
    statuses,
    streaks: new EndpointStreaks(statuses, clock),
    resources: api,
    objects: new DeliveryObjects(api, clock),
    outcomes,
    segments,
    namespace: config.namespace,
    userAgent: `Davit/${options.version}`,
    waitScale: config.waitScale,
    giveUp,
    maxInFlight: config.limits.inFlight,
  })
  const keys = new KeyIndex()
  const publisher = new Publisher({ log: eventLog, keys, directory, clock })
  const keyStore = new SigningKeyStore(api, directory, config.namespace)
  const sharedSecrets = new SharedSecrets(api, clock)
  const loop = { clock, random, log, metrics }
  const endpoints = new EndpointReconciler({
    directory,
    statuses,
    organizations,
    catalogue,
    keeper: new EndpointKeeper({ store: keyStore, shared: sharedSecrets, events, clock, random }),
    requests: new EndpointRequests({ publisher, events, resources: api, namespace: config.namespace }),
    notice: new OwnerNotice({ mailer: world.mailer, organizations, statuses, clock, log }),
    events,
    clock,
    refuseUrl: (url) => {
      const verdict = world.urlGuard.check(url)
      return verdict.ok ? undefined : verdict.reason
    },
  })
  const book = new EventBook()
  const eventsReconciler = new EventsReconciler({
    resources: api,
    writer: api,
    organizations,
    catalogue,
    validator: world.validator,
    keys,
    log: eventLog,
    clock,
    book,
    tally: plane.tally,
    maxPending: config.limits.pendingPerOrganization,
    maxPendingInAll: config.limits.pending,
  })
  const eventLoop = new ReconcileLoop({ name: 'webhook-event', reconciler: eventsReconciler, ...loop })
  plane.tally.onEventDone = (name) => {
    const namespace = eventsReconciler.delivered(name)
    if (namespace !== undefined) eventLoop.add(namespace)
  }
  return {
    directory,
    organizations,
    catalogue,
    book,
    keyStore,
    sharedSecrets,
    outcomes,
    eventLog,
    plane,
    intake: new LogIntake(plane, keys),
    endpointLoop: new ReconcileLoop({ name: 'webhook-endpoint', reconciler: endpoints, ...loop }),
    eventLoop,
  }
}
