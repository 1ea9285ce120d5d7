/** The role `davit controller`: delivers webhooks, keeps secrets in the accounts of their organizations, and bakes boxes with them. */

import { installationKey } from '../credentials/accounts/installation-key.ts'
import { withFencing } from '../ha/fence.ts'
import type { Watch } from '../kube/watch.ts'
import type { Clock } from '../lib/ports-clock.ts'
import { sleep } from '../lib/sleep.ts'
import { RemoteDeliverySweeper } from '../webhooks/delivery/shown-sweep.ts'
import { readLowWater } from '../webhooks/log/reader.ts'
import type { Config } from './config.ts'
import { createWebhookWatches, type WebhookWatches } from './controller-watches.ts'
import { Replica } from './replica.ts'
import { createShardWork } from './shard-work.ts'
import { LeaderTasks } from './singletons.ts'
import { createWebhookControllers, type WebhookControllers } from './webhook-controllers.ts'
import type { ControllerDependencies } from './world-types.ts'

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
