import { namespaces, secrets } from '../apis/core-kinds.ts'
import { deliverySegments } from '../apis/delivery-segment.ts'
import { eventType, eventTypes } from '../apis/event-type.ts'
import { ORGANIZATION_LABEL } from '../apis/meta.ts'
import { outcomeSegments } from '../apis/outcome-segment.ts'
import {
  SIGNING_KEYS_LABEL,
  type WebhookEndpoint,
  webhookEndpoint,
  webhookEndpoints,
} from '../apis/webhook-endpoint.ts'
import { eventOutline, webhookEvents } from '../apis/webhook-event.ts'
import { installationKey } from '../credentials/accounts/installation-key.ts'
import { CloudError } from '../credentials/cloud.ts'
import { shardOf } from '../ha/assignment.ts'
import { withFencing } from '../ha/ownership.ts'
import type { ShardWork } from '../ha/replica-records.ts'
import type { RawObject } from '../kube/client.ts'
import { Informer, type InformerDependencies } from '../kube/informer.ts'
import { readOrganization } from '../kube/organizations.ts'
import type { Watch } from '../kube/watch-health.ts'
import type { Clock } from '../lib/clock.ts'
import { sleep } from '../lib/sleep.ts'
import { RemoteDeliverySweeper, ShardTakeover } from '../webhooks/delivery/takeover.ts'
import { ensureBuiltinEventTypes } from '../webhooks/endpoints/event-types.ts'
import { readKeys } from '../webhooks/endpoints/signing-keys.ts'
import {
  LARGEST_LOG_PAGE,
  LOG_PAGE,
  reachesLowWater,
  readLiveSegment,
  readLoggedOutcomes,
  readLowWater,
} from '../webhooks/log/reader.ts'
import { MIN_AGE_MS } from '../webhooks/log/retention-plan.ts'
import type { LoggedOutcomes, LogSegment } from '../webhooks/log/store.ts'
import { type BoxController, createBoxController } from './box-controller.ts'
import type { Config } from './config.ts'
import { type CredentialControllers, createCredentialControllers } from './credential-controllers.ts'
import type { ControllerDependencies } from './dependencies.ts'
import { Replica } from './replica.ts'
import { createWebhookControllers, type WebhookControllers } from './webhook-controllers.ts'

/** What the controller watches, and which loop each change wakes. */

export type WebhookWatchOptions = {
  parts: WebhookControllers
  needs: InformerDependencies
  /** The operator's namespace. */
  namespace: string
  /** The store is older than what was read of it. */
  onSetBack: () => void
  /** Outcomes may have been written and deleted that were never read here. */
  onMissed: () => void
}

/** `settings` decide how deliveries go; `log` is the feed of segments, and `outcomes` of what became of them; `events` are read last. */
type WebhookWatches = {
  inputs: Informer<unknown>[]
  log: Informer<LogSegment>
  outcomes: Informer<LoggedOutcomes>
  events: Informer<unknown>
}

/** By how much the clocks of who deletes and of who watches may differ, with what lies between a deletion and its decision. */
const MISSED_MARGIN_MS = 20_000

/** Not started. */
function createWebhookWatches(options: WebhookWatchOptions): WebhookWatches {
  const { parts, needs, namespace } = options
  wakeLoops(parts)
  const organizations = new Informer(
    {
      type: namespaces,
      query: { labelSelector: `${ORGANIZATION_LABEL}=true` },
      decode: readOrganization,
      handler: {
        applied: (organization) => parts.organizations.apply(organization),
        deleted: (organization) => parts.organizations.remove(organization.name),
      },
    },
    needs,
  )
  const types = new Informer(
    {
      type: eventTypes,
      decode: (raw) => eventType.parse(raw),
      handler: {
        applied: (type) => parts.catalogue.apply(type),
        deleted: (type) => parts.catalogue.remove(type),
      },
    },
    needs,
  )
  const keys = new Informer(
    {
      type: secrets,
      query: { namespace, labelSelector: `${SIGNING_KEYS_LABEL}=true` },
      decode: readKeys,
      handler: {
        applied: (held) => parts.directory.applyKeys(held.namespace, held.endpoint, held.keys),
        deleted: ({ namespace, endpoint, keys }, version = Number(keys.version)) =>
          parts.directory.removeKeys(namespace, endpoint, version),
      },
    },
    needs,
  )
  const endpoints = new Informer(
    {
      type: webhookEndpoints,
      decode: (raw) => webhookEndpoint.parse(raw),
      handler: {
        applied: (endpoint) => parts.directory.apply(endpoint),
        deleted: (endpoint) => parts.directory.remove(endpoint),
      },
    },
    needs,
  )
  const events = new Informer(
    {
      type: webhookEvents,
      decode: (raw) => eventOutline.parse(raw),
      handler: {
        applied: (event) => {
          if (parts.book.apply(event)) parts.eventLoop.add(event.metadata.namespace)
        },
        deleted: (event) => parts.book.remove(event),
      },
    },
    needs,
  )
  parts.book.isComplete = () => events.isGapless
  const takeSegment = (segment: LogSegment) => {
    parts.segmentNamers.segments.observe(segment.name)
    parts.retention.segmentSeen(segment)
    parts.follower.addSegment(segment)
  }
  const log = new Informer(
    {
      ...logWatchOptions(options),
      type: deliverySegments,
      decode: readLiveSegment,
      handler: {
        applied: takeSegment,
        gone: (key) => parts.retention.segmentGone(key.slice(namespace.length + 1)),
      },
    },
    needs,
  )
  const outcomes = new Informer(
    {
      ...logWatchOptions(options),
      gapDetection: { afterMs: MIN_AGE_MS - MISSED_MARGIN_MS, onGap: options.onMissed },
      type: outcomeSegments,
      decode: (raw) => readLoggedOutcomes(raw, needs.log),
      handler: {
        applied: (seen) => {
          parts.segmentNamers.outcomes.observe(seen.name)
          parts.retention.outcomesSeen(seen)
          parts.follower.applyOutcomes(seen)
        },
      },
    },
    needs,
  )
  return {
    inputs: [organizations, types, keys, endpoints] as Informer<unknown>[],
    log,
    outcomes,
    events: events as Informer<unknown>,
  }
}

/** What the feeds of segments and of outcomes have in common. */
function logWatchOptions({ parts, namespace, onSetBack }: WebhookWatchOptions) {
  return {
    query: { namespace, limit: LOG_PAGE },
    largestPage: LARGEST_LOG_PAGE,
    streaming: true,
    onStoreRestored: onSetBack,
    stopListing: stopAtLowWater(() => parts.engine.ctx.segments.lowWater),
  }
}

/** Each list of the log ends soon behind the low-water mark, as that was when the list before had ended. */
function stopAtLowWater(lowWater: () => number): (page: readonly RawObject[]) => boolean {
  let enough = reachesLowWater(lowWater())
  return (page) => {
    if (!enough(page)) return false
    enough = reachesLowWater(lowWater())
    return true
  }
}

/** Changes of what an endpoint's condition depends on. */
function wakeLoops(parts: WebhookControllers): void {
  const { directory, organizations, catalogue, endpointLoop, eventLoop } = parts
  const wake = ({ metadata }: WebhookEndpoint) => endpointLoop.add(`${metadata.namespace}/${metadata.name}`)
  directory.listen({
    changed: (view) => wake(view.endpoint),
    removed: ({ metadata }) => {
      parts.sharedSecrets.forget(metadata.uid)
      // The keys go with their endpoint; a failure is made good by a later sweep.
      if (parts.engine.owns(metadata.uid))
        void parts.keyStore
          .remove(metadata.namespace ?? '', metadata.name, metadata.uid)
          .catch(() => undefined)
    },
  })
  organizations.listen((name) => {
    for (const { endpoint } of directory.inNamespace(name)) wake(endpoint)
    eventLoop.add(name)
  })
  catalogue.listen((type) => {
    for (const { endpoint } of directory.all()) if (endpoint.spec.eventTypes.includes(type)) wake(endpoint)
  })
}

type Cloud = ControllerDependencies['cloud']

/** The same accounts, of which no parameter is written or removed while another replica may do that: it fails before it is sent. */
export function withCloudFencing(cloud: Cloud, mayWrite: () => boolean): Cloud {
  const guard = async <T>(write: () => Promise<T>): Promise<T> => {
    if (mayWrite()) return await write()
    throw new CloudError('retry', 'Canceled', 'another replica may have taken over what this was for')
  }
  return {
    create: (access, parameter, limits) => guard(() => cloud.create(access, parameter, limits)),
    replace: (access, name, value, limits) => guard(() => cloud.replace(access, name, value, limits)),
    remove: (access, name, limits) => guard(() => cloud.remove(access, name, limits)),
    list: (access, filter, limits) => cloud.list(access, filter, limits),
    tagsOf: (access, name, limits) => cloud.tagsOf(access, name, limits),
    self: (region, limits) => cloud.self(region, limits),
    identify: (access, limits) => cloud.identify(access, limits),
    readable: (access, name, limits) => cloud.readable(access, name, limits),
    refusesOtherId: (access, limits) => cloud.refusesOtherId(access, limits),
  }
}

/** What one replica does for all: whoever owns the first shard. It is made anew each time, and knows nothing of before. */

/** Its owner is who does it. */
export const LEADER_SHARD = 0

export type LeaderTasksOptions = {
  config: Config
  world: ControllerDependencies
  parts: WebhookControllers
  replica: Pick<Replica, 'ownershipCheck'>
  installationKey: Uint8Array
  /** Every segment of events up to this version was shown. */
  observedVersion: () => number
}

type RunningOfSingletons = { secrets: CredentialControllers; bakes: BoxController }
type Made = RunningOfSingletons & { forget: () => void; stopping: AbortController }

export class LeaderTasks {
  readonly #options: LeaderTasksOptions
  #running: Made | undefined

  constructor(options: LeaderTasksOptions) {
    this.#options = options
  }

  /** Undefined where another replica does it. */
  get running(): RunningOfSingletons | undefined {
    return this.#running
  }

  get watches(): readonly Informer<unknown>[] {
    return this.#running ? [...this.#running.secrets.watches, ...this.#running.bakes.watches] : []
  }

  /**
   * Resolves when all that it looks at is known and it has begun, or when it is stopped before. Nobody has to wait for it: where
   * something of it cannot be read, deliveries go on.
   */
  async start(): Promise<void> {
    const { config, parts, replica, installationKey } = this.#options
    // Of this start alone: one that another replica has followed writes nothing more, in the cluster or in accounts.
    const mayWrite = replica.ownershipCheck(LEADER_SHARD)
    const { api, cloud } = this.#options.world
    const world = {
      ...this.#options.world,
      api: withFencing(api, mayWrite),
      cloud: withCloudFencing(cloud, mayWrite),
    }
    const { organizations, keyStore, retention } = parts
    const { made, forget } = organizations.whileMaking((): RunningOfSingletons => {
      const secrets = createCredentialControllers({ config, world, organizations, installationKey })
      const { credentials } = secrets.parts
      return { secrets, bakes: createBoxController({ config, world, organizations, credentials }) }
    })
    const { secrets, bakes } = made
    const stopping = new AbortController()
    this.#running = { ...made, forget, stopping }
    const watches = this.watches
    for (const watch of watches) watch.start()
    const stopped = new Promise((resolve) =>
      stopping.signal.addEventListener('abort', resolve, { once: true }),
    )
    await Promise.race([stopped, Promise.all(watches.map((watch) => watch.synced))])
    if (stopping.signal.aborted) return
    secrets.start()
    bakes.start()
    void retention.followLog(this.#options.observedVersion)
    keyStore
      .removeAbandoned(world.clock.now())
      .catch((error: unknown) => world.log.warn('Keys left behind could not be removed', { error }))
    const isKnown = (name: string) => parts.catalogue.get(name) !== undefined
    if (config.shippedEventTypes) void ensureBuiltinEventTypes(world, isKnown)
  }

  /** Resolves when nothing of it is under way. */
  async stop(): Promise<void> {
    const running = this.#running
    this.#running = undefined
    running?.stopping.abort()
    running?.forget()
    this.#options.parts.retention.leaveLog()
    await Promise.all([running?.secrets.stop(), running?.bakes.stop()])
  }
}

/** What is begun and ended with a shard: its lanes, the endpoints and events that belong to it, and what one replica does for all. */

export type ShardWorkOptions = {
  world: Pick<ControllerDependencies, 'api' | 'log'>
  /** Every segment of the log up to this version was shown by the watch. */
  observedVersion: () => number
  parts: WebhookControllers
  leaderTasks: LeaderTasks
}

export function createShardWork({
  world,
  observedVersion: shownUpTo,
  parts,
  leaderTasks,
}: ShardWorkOptions): ShardWork {
  const { engine, follower, directory, retention, book } = parts
  const takeOver = new ShardTakeover({
    engine: engine,
    follower,
    directory,
    resources: world.api,
    syncedVersion: shownUpTo,
    onFound: (outline, isOurs) => retention.objectFound(outline, isOurs),
  })
  return {
    start: async (numbers, signal) => {
      const shards = new Set(numbers)
      // A start that failed may have told of some.
      retention.shardsLeft(shards)
      const found = await takeOver.start(shards, signal)
      if (shards.has(LEADER_SHARD)) void leaderTasks.start()
      world.log.info('Shards were taken over', { shards: shards.size, ...found })
    },
    owned: (numbers) => {
      const shards = new Set(numbers)
      engine.wake(shards)
      for (const { endpoint } of directory.all()) {
        const { uid, namespace, name } = endpoint.metadata
        if (shards.has(shardOf(uid))) parts.endpointLoop.add(`${namespace}/${name}`)
      }
      for (const organization of book.organizations())
        if (shards.has(shardOf(organization))) parts.eventLoop.add(organization)
    },
    stop: async (shard) => {
      const others = [parts.endpointPasses.idle(shard), parts.eventPasses.idle(shard)]
      if (shard === LEADER_SHARD) others.push(leaderTasks.stop())
      // Its part of the bound goes with it.
      const shards = new Set([shard])
      retention.shardsLeft(shards)
      await Promise.all([takeOver.end(shards), ...others])
      for (const organization of book.organizations())
        if (shards.has(shardOf(organization))) parts.eventsReconciler.release(organization)
      retention.shardsLeft(shards)
      parts.streaks.forget(shard)
    },
  }
}

/** The role `davit controller`: delivers webhooks, keeps secrets in the accounts of their organizations, and bakes boxes with them. */

export type ControllerOptions = {
  config: Config
  world: ControllerDependencies
  version: string
  /** Of Leases, where the world has a time of its own. */
  leaseClock?: Clock
}

export type RunningController = {
  parts: WebhookControllers
  replica: Replica
  /** What one replica does for all. */
  leaderTasks: LeaderTasks
  /** What keeps it from being ready, in words; none when it delivers. */
  problems(): string[]
  /** Resolves when everything left by the process before goes on. */
  ready: Promise<void>
  /** Rejects when it cannot go on: only a new process can. */
  ended: Promise<never>
  /** No new attempt; running ones end or are given up after the drain time; what they came to is stored. */
  stop(): Promise<void>
}

/** What is in memory is of versions that the store gives to other things now. */
const SET_BACK =
  'the store is older than what was read of it, as after a restore: only a new start knows what is open'
/** Claims go with the outcomes that they stand among, and what their writers record later is judged by them. */
const MISSED =
  'outcomes were out of reach for longer than they are kept: only a new start knows whose word counts'
const RETRY_MS = 1000
/** Shorter breaks are the API server's everyday life. */
const UNWATCHED_MS = 5000
/** For what is on its way to the store after attempts were given up. */
const LAST_WRITES_MS = 3000
/** For the list of Leases and the records by which others know that nothing is under way. */
const HAND_OVER_MS = 3000

export async function startController(options: ControllerOptions): Promise<RunningController> {
  const { config, world: bare, version } = options
  const { namespace } = config
  const clock = options.leaseClock ?? bare.clock
  const giveUp = new AbortController()
  const end = Promise.withResolvers<never>()
  end.promise.catch(() => undefined)
  const onSetBack = () => end.reject(new Error(SET_BACK))
  const replica = new Replica({
    config,
    world: bare,
    clock,
    onReplaced: () => end.reject(new Error(`another process has the name ${config.replica}`)),
    onSetBack,
  })
  const world = { ...bare, api: withFencing(bare.api, () => replica.mayWrite) }
  const ask = <T>(work: () => Promise<T>) => untilAnswered(world, giveUp.signal, work)
  const lowWater = await ask(() => readLowWater(world.api, namespace))
  const key = await ask(() => installationKey({ resources: bare.api, namespace, random: world.random }))
  const shownUpTo = () => watches.log.version
  const parts = createWebhookControllers({
    config,
    world,
    version,
    lowWater,
    shards: replica,
    mayWrite: () => replica.mayAct,
    session: replica.session,
    observedVersion: shownUpTo,
    onLost: () => end.reject(new Error('the delivery log could not be followed')),
    onClaimedElsewhere: (shards) => replica.reclaim(shards),
    giveUp: giveUp.signal,
  })
  const singletons = new LeaderTasks({
    config,
    world,
    parts,
    replica,
    installationKey: key,
    observedVersion: shownUpTo,
  })
  const onMissed = () => end.reject(new Error(MISSED))
  const watches = createWebhookWatches({ parts, needs: world, namespace, onSetBack, onMissed })
  const work = createShardWork({ world, observedVersion: shownUpTo, parts, leaderTasks: singletons })
  let problem: string | undefined = 'reading what the process before left'
  const ready = begin({ parts, watches, giveUp: giveUp.signal }, () => replica.join(work)).then(() => {
    problem = undefined
    world.log.info('Delivering', { unfinished: parts.engine.counters.total, shards: replica.ownedShardCount })
  })
  return {
    parts,
    replica,
    leaderTasks: singletons,
    ready,
    ended: end.promise,
    problems: () => [
      ...(problem ? [problem] : []),
      ...(replica.isNameTaken ? [`another process has, or had, the name ${config.replica}`] : []),
      ...(replica.mayAct || problem ? [] : ['its Lease could not be renewed']),
      ...(parts.outcomes.healthy() ? [] : ['outcomes cannot be stored']),
      ...unwatched([...all(watches), ...singletons.watches]),
    ],
    stop: () => stop({ ...options, world }, { parts, watches, replica, singletons, giveUp }),
  }
}

function all({ inputs, log, outcomes, events }: WebhookWatches): Watch[] {
  return [...inputs, log, outcomes, events]
}

/** One line for all: they are lost together. */
function unwatched(watches: readonly Watch[]): string[] {
  const longest = Math.max(...watches.map((watch) => watch.health.disconnectedForMs()))
  if (longest < UNWATCHED_MS) return []
  return [`the API server could not be watched for ${Math.floor(longest / 1000)} s`]
}

type Running = { parts: WebhookControllers; watches: WebhookWatches }

/** Reads what there is, and joins the others. Resolves when everything that is this replica's goes on. */
async function begin(
  { parts, watches, giveUp }: Running & { giveUp: AbortSignal },
  join: () => Promise<void>,
): Promise<void> {
  const { inputs, log, outcomes, events } = watches
  for (const watch of inputs) watch.start()
  await Promise.all(inputs.map((watch) => watch.synced))
  log.start()
  await log.synced
  outcomes.start()
  await outcomes.synced
  parts.follower.outcomesListed()
  if (giveUp.aborted) return
  parts.engine.start()
  void new RemoteDeliverySweeper(parts.engine).run(giveUp)
  parts.endpointLoop.start()
  parts.eventLoop.start()
  parts.retention.start()
  const joined = join()
  // Whether an event was accepted before is in the log, which is known by now.
  events.start()
  await joined
}

type Stopping = Running & { replica: Replica; singletons: LeaderTasks; giveUp: AbortController }

async function stop(
  { config, world }: ControllerOptions,
  { parts, watches, replica, singletons, giveUp }: Stopping,
): Promise<void> {
  const { clock, log } = world
  parts.engine.stop()
  const retained = parts.retention.stop()
  const left = replica.leave()
  // A pass may wait for an outcome of its endpoint that the store does not take: only giving up ends that.
  const loops = [parts.endpointLoop.stop(), parts.eventLoop.stop()]
  const drained = Promise.all([...loops, parts.engine.drained()])
  // Shards are handed over in order before anything is given up, where the store lets them be.
  const handedOver = drained.then(() => Promise.race([left, sleep(clock, HAND_OVER_MS)]))
  // What a mail that is given up tells is told by the next process.
  const ended = Promise.all([handedOver, parts.notice.stop()]).then(() => true)
  const inTime = await Promise.race([ended, sleep(clock, config.drainMs).then(() => false)])
  if (!inTime)
    log.warn('Attempts under way were given up; they are made again at the next start', {
      ...parts.engine.stats(),
    })
  giveUp.abort()
  const lastWrites = Promise.all([drained, retained, parts.outcomes.drain(), parts.eventLog.drain()])
  // Others take over at once what they are told of, and the rest when the Lease has ended.
  await Promise.race([lastWrites.then(() => left), sleep(clock, LAST_WRITES_MS)])
  replica.stopRenewing()
  await singletons.stop()
  await Promise.all(all(watches).map((watch) => watch.stop()))
}

/** The API server may come up later than the controller. */
async function untilAnswered<T>(
  world: ControllerDependencies,
  signal: AbortSignal,
  ask: () => Promise<T>,
): Promise<T> {
  for (;;) {
    try {
      return await ask()
    } catch (error) {
      if (signal.aborted) throw error
      world.log.warn('The API server did not answer; trying again', { error })
      await sleep(world.clock, RETRY_MS, signal)
    }
  }
}
