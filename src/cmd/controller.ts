/**
 * The map of `davit controller`: every controller, what it watches and what wakes it.
 *
 * | Loop                  | Key                            | Runs on the owner of      | Code                     |
 * | --------------------- | ------------------------------ | ------------------------- | ------------------------ |
 * | delivery engine       | delivery                       | the endpoint's shard      | webhooks/delivery/       |
 * | `webhook-endpoint`    | WebhookEndpoint                | the endpoint's shard      | webhooks/endpoints/      |
 * | `webhook-event`       | organization                   | the organization's shard  | webhooks/events/         |
 * | retention             | delivery log, WebhookDeliveries| its shards; log: shard 0  | webhooks/log/            |
 * | `secrets-settings`    | organization                   | shard 0 (leader-tasks.ts) | credentials/accounts/    |
 * | `registry-credential` | RegistryCredential             | shard 0                   | credentials/controller/  |
 * | `orphaned-parameters` | failed deletions, as one key   | shard 0                   | credentials/controller/  |
 * | `box-template`        | BoxTemplate                    | shard 0                   | boxes/controller/        |
 * | `event-type`          | EventType                      | shard 0                   | webhooks/endpoints/      |
 *
 * `...-controllers.ts` builds the loops, `start-controller.ts` starts and stops everything.
 */

import { type BoxTemplate, boxTemplate, boxTemplates, TEMPLATE_LABEL } from '../apis/box-template.ts'
import { jobs, pods, secrets } from '../apis/core-kinds.ts'
import { eventType, eventTypes } from '../apis/event-type.ts'
import { CREDENTIAL_PREFIX } from '../apis/ids.ts'
import { type ObjectMeta, objectMeta, type ResourceType } from '../apis/meta.ts'
import { registryCredential, registryCredentials } from '../apis/registry-credential.ts'
import { secretsSettings, secretsSettingsResource } from '../apis/secrets-settings.ts'
import { SIGNING_KEYS_LABEL, webhookEndpoint, webhookEndpoints } from '../apis/webhook-endpoint.ts'
import { eventOutline, webhookEvents } from '../apis/webhook-event.ts'
import { bakeSelector } from '../boxes/controller/bake-job.ts'
import { isBaking, templateKey } from '../boxes/controller/controller.ts'
import { templatesOverQuota } from '../boxes/controller/quota.ts'
import type { RawObject } from '../kube/client.ts'
import { informers, into, kindOf } from '../kube/informer.ts'
import { ORGANIZATIONS } from '../kube/organizations.ts'
import { ReconcileLoop } from '../kube/reconcile-loop.ts'
import type { Watch } from '../kube/watch-restarts.ts'
import { EventTypeReconciler } from '../webhooks/endpoints/event-type-status.ts'
import type { EventTypeStore } from '../webhooks/endpoints/event-types.ts'
import { readKeys } from '../webhooks/endpoints/signing-keys.ts'
import { type LogWatch, outcomesOf, segmentsOf } from '../webhooks/log/reader.ts'
import type { CountedSegment, LoggedOutcomes } from '../webhooks/log/store.ts'
import type { ControllerDependencies } from './dependencies.ts'
import {
  type BoxLoop,
  type BoxOptions,
  buildBoxLoop,
  buildCredentialLoops,
  type CredentialLoops,
  type CredentialOptions,
} from './leader-controllers.ts'
import { buildWebhookLoops, type WebhookLoops, type WebhookOptions } from './webhook-controllers.ts'

/** Webhooks. Every replica watches everything here and works on its own shards. */
export type WebhookControllers = WebhookLoops & {
  /** In the order in which they are started. `log` and `outcomes` are the two halves of the delivery log. */
  watches: { inputs: readonly Watch[]; log: Watch; outcomes: Watch; events: Watch }
}

export type WebhookControllersOptions = Omit<WebhookOptions, 'observedVersion'> &
  Pick<LogWatch, 'onStoreRestored' | 'onOutcomesMissed'>

export function createWebhookControllers(options: WebhookControllersOptions): WebhookControllers {
  const loops = buildWebhookLoops({ ...options, observedVersion: () => watches.log.version })
  const watches = watchWebhooks(loops, options)
  wakeWebhookLoops(loops)
  return { ...loops, watches }
}

function watchWebhooks(loops: WebhookLoops, options: WebhookControllersOptions) {
  const { organizations, catalogue, directory, book, eventLoop, retention, follower, written } = loops
  const { namespace } = options.config
  const watch = informers(options.dependencies)
  const signingKeys = {
    type: secrets,
    query: { namespace, labelSelector: `${SIGNING_KEYS_LABEL}=true` },
    decode: readKeys,
  }
  const inputs = [
    watch(ORGANIZATIONS, into(organizations)),
    watch(kindOf(eventTypes, eventType), into(catalogue)),
    watch(signingKeys, {
      applied: ({ namespace, endpoint, keys }) => directory.applyKeys(namespace, endpoint, keys),
      deleted: ({ namespace, endpoint, keys }, version = Number(keys.version)) =>
        directory.removeKeys(namespace, endpoint, version),
    }),
    watch(kindOf(webhookEndpoints, webhookEndpoint), into(directory)),
  ]
  const lowWater = () => loops.engine.ctx.segments.lowWater
  const logWatch = { ...options, lowWater, logger: options.dependencies.log }
  // New segments feed the delivery engine, by way of the follower.
  const log: Watch = options.store.feed<CountedSegment>('events', {
    ...segmentsOf(logWatch),
    handler: {
      applied: ({ written: added, ...segment }) => {
        const ageMs = log.isListed ? 0 : options.dependencies.clock.now() - segment.createdAt
        for (const [organization, bytes] of added) written.add(organization, bytes, ageMs)
        retention.segmentSeen(segment)
        follower.addSegment(segment)
      },
      gone: (key) => retention.segmentGone(key.slice(namespace.length + 1)),
    },
  })
  const outcomes = options.store.feed<LoggedOutcomes>('outcomes', {
    ...outcomesOf(logWatch),
    handler: {
      applied: (seen) => {
        retention.outcomesSeen(seen)
        follower.applyOutcomes(seen)
      },
    },
  })
  const events = watch(kindOf(webhookEvents, eventOutline), {
    applied: (event) => {
      if (book.apply(event)) eventLoop.add(event.metadata.namespace)
    },
    deleted: (event) => book.remove(event),
  })
  book.isComplete = () => events.isGapless
  return { inputs, log, outcomes, events }
}

function wakeWebhookLoops(loops: WebhookLoops): void {
  const { directory, organizations, catalogue, endpointLoop, eventLoop, engine, keyStore, sharedSecrets } =
    loops
  const wake = ({ metadata }: { metadata: ObjectMeta }) =>
    endpointLoop.add(`${metadata.namespace}/${metadata.name}`)
  // The endpoint, its status or its signing keys.
  directory.listen({
    changed: (view) => wake(view.endpoint),
    removed: ({ metadata: { uid, namespace = '', name } }) => {
      sharedSecrets.forget(uid)
      // A later sweep removes keys for which this fails.
      if (engine.owns(uid)) void keyStore.remove(namespace, name, uid).catch(() => undefined)
    },
  })
  // The organization of endpoints and events.
  organizations.listen((name) => {
    for (const { endpoint } of directory.inNamespace(name)) wake(endpoint)
    eventLoop.add(name)
  })
  // An event type that endpoints subscribe to.
  catalogue.listen(({ type }) => {
    for (const { endpoint } of directory.all()) if (endpoint.spec.eventTypes.includes(type)) wake(endpoint)
  })
}

/** Starts its loops once its watches are synced; they are started by its owner. */
type LeaderController = { watches: readonly Watch[]; start(): void; stop(): Promise<void> }

export type CredentialControllers = CredentialLoops & LeaderController

/** Registry credentials and the accounts that they are stored in. No Secret is watched: that takes the right to see all of them. */
export function createCredentialControllers(options: CredentialOptions): CredentialControllers {
  const loops = buildCredentialLoops(options)
  const { settings, credentials, organizations, listings } = loops
  const { settingsLoop, credentialLoop, failedDeletionLoop, settingsReconciler, credentialReconciler } = loops
  const watch = informers(options.dependencies)
  const watches = [
    watch(kindOf(secretsSettingsResource, secretsSettings), into(settings)),
    watch(kindOf(registryCredentials, registryCredential), into(credentials)),
  ]
  const keysIn = (organization: string) =>
    credentials.in(organization).map(({ metadata }) => `${organization}/${metadata.name}`)
  const wakeAll = (organization: string) => {
    for (const key of keysIn(organization)) credentialLoop.add(key)
  }
  settings.listen((object, before) => {
    const { namespace = '' } = object.metadata
    if (isDesiredStateNew(object, before)) {
      settingsReconciler.interrupt(namespace)
      for (const key of keysIn(namespace)) credentialReconciler.interrupt(key)
    }
    settingsLoop.add(namespace)
    wakeAll(namespace)
  })
  credentials.listen((object, before) => {
    const key = `${object.metadata.namespace}/${object.metadata.name}`
    if (isDesiredStateNew(object, before)) credentialReconciler.interrupt(key)
    credentialLoop.add(key)
  })
  // The parameters that are in the account.
  listings.listen(wakeAll)
  organizations.listen((name) => {
    settingsLoop.add(name)
    wakeAll(name)
  })
  failedDeletionLoop.add('all')
  return { ...loops, ...leaderController([settingsLoop, credentialLoop, failedDeletionLoop], watches) }
}

type Meta = { metadata: ObjectMeta }

/** The spec changed, or the object is being deleted: a pass that runs works towards the wrong state. */
function isDesiredStateNew({ metadata: now }: Meta, before: Meta | undefined): boolean {
  const { uid, generation, deletionTimestamp } = before?.metadata ?? now
  const isOther = now.uid !== uid || now.generation !== generation
  return isOther || (now.deletionTimestamp !== undefined && deletionTimestamp === undefined)
}

export type BoxController = BoxLoop & LeaderController

/** Box templates. Their Jobs and pods are watched where bakes are configured. */
export function createBoxController(options: BoxOptions): BoxController {
  const loop = buildBoxLoop(options)
  const { templates, templateLoop, slots } = loop
  const { organizations, credentials, config } = options
  const watch = informers(options.dependencies)
  const add = (template: BoxTemplate) => templateLoop.add(templateKey(template))
  // Labels count in organizations only.
  const wakeLabelled = ({ namespace = '', labels }: ObjectMeta) => {
    const name = labels?.[TEMPLATE_LABEL]
    if (name === undefined || organizations.get(namespace) === undefined) return
    if (templates.get(namespace, name)) templateLoop.add(`${namespace}/${name}`)
  }
  // By their metadata alone: the loop reads the rest itself.
  const bakes = (type: ResourceType) => ({
    type,
    query: { labelSelector: bakeSelector() },
    decode: (raw: RawObject) => objectMeta.parse(raw.metadata),
  })
  const runs = (config.bake.image === undefined ? [] : [jobs, pods]).map((type) =>
    watch(bakes(type), { applied: wakeLabelled, deleted: wakeLabelled }),
  )
  templates.listen((template) => {
    // Before the first pass: a bake that an earlier process started has its slot.
    if (isBaking(template)) slots.occupy(templateKey(template))
    add(template)
    const { namespace = '', name, deletionTimestamp } = template.metadata
    if (deletionTimestamp !== undefined || templates.get(namespace, name) === undefined)
      for (const other of templatesOverQuota(templates, template)) add(other)
  })
  organizations.listen((name) => {
    for (const template of templates.in(name)) add(template)
  })
  // A template waits for credentials, so the status that the credential controller writes wakes it as well.
  credentials.observe(({ metadata: { namespace = '', name } }) => {
    const id = `${CREDENTIAL_PREFIX}${name}`
    for (const template of templates.in(namespace))
      if (template.spec.services.some((service) => service.registryCredentialId === id)) add(template)
  })
  return {
    ...loop,
    ...leaderController([templateLoop], [watch(kindOf(boxTemplates, boxTemplate), into(templates)), ...runs]),
  }
}

/** Writes the status of event types. @returns a loop that is started by its owner, and a call that no longer wakes it */
export function createEventTypeLoop(
  dependencies: ControllerDependencies,
  catalogue: EventTypeStore,
): { loop: ReconcileLoop; forget: () => void } {
  const reconciler = new EventTypeReconciler({ ...dependencies, catalogue })
  const loop = new ReconcileLoop({ ...dependencies, name: 'event-type', reconciler })
  for (const { metadata } of catalogue.objects()) loop.add(metadata.name)
  return { loop, forget: catalogue.listen(({ object }) => loop.add(object)) }
}

function leaderController(loops: readonly ReconcileLoop[], watches: readonly Watch[]): LeaderController {
  return {
    watches,
    start() {
      for (const loop of loops) loop.start()
    },
    async stop() {
      await Promise.all(loops.map((loop) => loop.stop()))
      await Promise.all(watches.map((watch) => watch.stop()))
    },
  }
}
