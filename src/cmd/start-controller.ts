import { installationKey } from '../credentials/accounts/identity.ts'
import { shardOf } from '../ha/assignment.ts'
import type { ShardWork } from '../ha/coordinator.ts'
import { withFencing } from '../ha/ownership.ts'
import type { Watch } from '../kube/watch-restarts.ts'
import { type Clock, sleep } from '../lib/time.ts'
import { RemoteDeliverySweeper, ShardTakeover } from '../webhooks/delivery/takeover.ts'
import { KubernetesLogStore } from '../webhooks/log/kubernetes-store.ts'
import { readLowWater } from '../webhooks/log/read-back.ts'
import type { Config } from './config.ts'
import { createWebhookControllers, type WebhookControllers } from './controller.ts'
import type { ControllerDependencies } from './dependencies.ts'
import { LEADER_SHARD, LeaderTasks } from './leader-tasks.ts'
import { Replica } from './replica.ts'

/** What starts and stops with a shard: its deliveries, endpoints and events, and, with shard 0, the leader's tasks. */

export function createShardWork(
  { log }: Pick<ControllerDependencies, 'log'>,
  webhooks: WebhookControllers,
  leaderTasks: LeaderTasks,
): ShardWork {
  const { engine, directory, retention, book, endpointLoop, eventLoop } = webhooks
  const takeover = new ShardTakeover({
    engine,
    follower: webhooks.follower,
    syncedVersion: () => webhooks.watches.log.version,
    onFound: (outline, isOurs) => retention.objectFound(outline, isOurs),
  })
  const organizationsOf = (shards: ReadonlySet<number>) =>
    [...book.organizations()].filter((organization) => shards.has(shardOf(organization)))
  return {
    start: async (numbers, signal) => {
      const shards = new Set(numbers)
      // An earlier start that failed may have reported some of their objects.
      retention.shardsLeft(shards)
      const found = await takeover.start(shards, signal)
      log.info('shards_taken_over', 'took over shards', { shards: shards.size, ...found })
    },
    confirm: (numbers, signal) => takeover.confirm(new Set(numbers), signal),
    owned: (numbers) => engine.wake(new Set(numbers)),
    ownedAlone: (numbers) => {
      const shards = new Set(numbers)
      engine.wake(shards)
      if (shards.has(LEADER_SHARD)) void leaderTasks.start()
      for (const { endpoint } of directory.all()) {
        const { uid, namespace, name } = endpoint.metadata
        if (shards.has(shardOf(uid))) endpointLoop.add(`${namespace}/${name}`)
      }
      for (const organization of organizationsOf(shards)) eventLoop.add(organization)
    },
    stop: async (shard) => {
      const shards = new Set([shard])
      const idle = [webhooks.endpointPasses.idle(shard), webhooks.eventPasses.idle(shard)]
      if (shard === LEADER_SHARD) idle.push(leaderTasks.stop())
      // Its share of the limits goes with it.
      retention.shardsLeft(shards)
      await Promise.all([takeover.end(shards), ...idle])
      for (const organization of organizationsOf(shards)) webhooks.eventsReconciler.release(organization)
      retention.shardsLeft(shards)
      webhooks.streaks.forget(shard)
      webhooks.lastAttempts.forget(shard)
    },
  }
}

/**
 * Starts and stops `davit controller`. A start reads everything, then joins the other replicas; a stop drains attempts and hands the
 * shards over before it gives up the rest.
 */

export type ControllerOptions = {
  config: Config
  dependencies: ControllerDependencies
  version: string
  /** The clock of Leases, in tests that step the other one. */
  leaseClock?: Clock
}

export type RunningController = {
  webhooks: WebhookControllers
  replica: Replica
  leaderTasks: LeaderTasks
  /** Why it is not ready, in words; none while it delivers. */
  problems(): string[]
  /** Resolves when everything that an earlier process left goes on. */
  ready: Promise<void>
  /** Rejects when only a new process can go on. */
  ended: Promise<never>
  /** Starts no new attempt; gives up those that still run after the drain time; stores the outcomes. */
  stop(): Promise<void>
}

/** The resource versions that are in memory now stand for other objects. */
const STORE_RESTORED =
  'the API server returned older data than before, as after a restore of etcd; only a restarted process can determine the open deliveries'
/** Claims are deleted with the outcomes around them, and which later records count depends on them. */
const OUTCOMES_MISSED =
  'delivery outcomes were unreachable for longer than they are kept; only a restarted process can determine the shard owners'
const RETRY_MS = 1000
/** An API server breaks watches for shorter times every day. */
const UNWATCHED_MS = 5000
/** For writes that are on their way to the store after attempts were given up. */
const LAST_WRITES_MS = 3000
/** For the list of Leases and the records that tell the others that nothing is in progress here. */
const HAND_OFF_MS = 3000

export async function startController(options: ControllerOptions): Promise<RunningController> {
  const { config, dependencies: unfenced } = options
  const { namespace } = config
  const { api, random } = unfenced
  const giveUp = new AbortController()
  const end = Promise.withResolvers<never>()
  end.promise.catch(() => undefined)
  const endWith = (message: string) => () => end.reject(new Error(message))
  const onStoreRestored = endWith(STORE_RESTORED)
  const replica = new Replica({
    config,
    dependencies: unfenced,
    clock: options.leaseClock ?? unfenced.clock,
    onReplaced: endWith(`another process uses the name ${config.replica}`),
    onStoreRestored,
  })
  const dependencies = {
    ...unfenced,
    api: withFencing(api, () => replica.mayWrite),
    onNewerFormat: (error: Error) => end.reject(error),
  }
  const retry = <T>(read: () => Promise<T>) => untilAnswered(dependencies, giveUp.signal, read)
  const { api: resources } = dependencies
  const store = new KubernetesLogStore({ ...dependencies, resources, namespace, watching: dependencies })
  const lowWater = await retry(() => readLowWater(store))
  const key = await retry(() => installationKey({ resources: api, namespace, random }))
  const webhooks = createWebhookControllers({
    config,
    dependencies,
    version: options.version,
    store,
    lowWater,
    shards: replica,
    mayWrite: () => replica.mayAct,
    session: replica.session,
    onStoreRestored,
    onOutcomesMissed: endWith(OUTCOMES_MISSED),
    onLost: endWith('failed to follow the delivery log'),
    onClaimedElsewhere: (shards) => replica.reclaim(shards),
    giveUp: giveUp.signal,
  })
  const leaderTasks = new LeaderTasks({ config, dependencies, webhooks, replica, installationKey: key })
  const work = createShardWork(dependencies, webhooks, leaderTasks)
  let problem: string | undefined = 'loading the state of the previous process'
  const ready = begin(webhooks, giveUp.signal, () => replica.join(work)).then(() => {
    problem = undefined
    const unfinished = webhooks.engine.counters.total
    dependencies.log.info('delivery_started', 'delivering events', {
      unfinished,
      shards: replica.ownedShardCount,
    })
  })
  const running = { webhooks, replica, leaderTasks }
  return {
    ...running,
    ready,
    ended: end.promise,
    problems: () => [
      ...(problem ? [problem] : []),
      ...(replica.isNameTaken ? [`another process uses, or recently used, the name ${config.replica}`] : []),
      ...(replica.mayAct || problem ? [] : ['failed to renew the Lease']),
      ...(webhooks.outcomes.healthy() ? [] : ['failed to store delivery outcomes']),
      ...unwatched([...watchesOf(webhooks), ...leaderTasks.watches]),
    ],
    stop: () => stop({ ...options, dependencies }, running, giveUp),
  }
}

function watchesOf({ watches: { inputs, log, outcomes, events } }: WebhookControllers): Watch[] {
  return [...inputs, log, outcomes, events]
}

/** One line for all watches, since they are lost together. */
function unwatched(watches: readonly Watch[]): string[] {
  const longest = Math.max(...watches.map((watch) => watch.health.disconnectedForMs()))
  if (longest < UNWATCHED_MS) return []
  return [`failed to watch the API server for ${Math.floor(longest / 1000)} s`]
}

/** Reads everything and joins the other replicas. Resolves when everything that belongs to this replica goes on. */
async function begin(webhooks: WebhookControllers, giveUp: AbortSignal, join: () => Promise<void>) {
  const { inputs, log, outcomes, events } = webhooks.watches
  for (const watch of inputs) watch.start()
  await Promise.all(inputs.map((watch) => watch.synced))
  log.start()
  await log.synced
  outcomes.start()
  await outcomes.synced
  webhooks.follower.outcomesListed()
  if (giveUp.aborted) return
  webhooks.engine.start()
  void new RemoteDeliverySweeper(webhooks.engine).run(giveUp)
  webhooks.endpointLoop.start()
  webhooks.eventLoop.start()
  webhooks.retention.start()
  const joined = join()
  // Last: the log, which is known by now, says which events were accepted before.
  events.start()
  await joined
}

async function stop(
  { config, dependencies: { clock, log } }: ControllerOptions,
  { webhooks, replica, leaderTasks }: Pick<RunningController, 'webhooks' | 'replica' | 'leaderTasks'>,
  giveUp: AbortController,
): Promise<void> {
  const { engine, endpointLoop, eventLoop, notifier, outcomes, eventLog } = webhooks
  engine.stop()
  const retained = webhooks.retention.stop()
  const left = replica.leave()
  // A pass may wait for an outcome that the store does not take: only giving up ends that.
  const drained = Promise.all([endpointLoop.stop(), eventLoop.stop(), engine.drained()])
  // If the store permits, shards are handed over cleanly before anything is given up.
  const handedOff = drained.then(() => Promise.race([left, sleep(clock, HAND_OFF_MS)]))
  // The next process sends the mails that are given up.
  const ended = Promise.all([handedOff, notifier.stop()]).then(() => true)
  const inTime = await Promise.race([ended, sleep(clock, config.drainMs).then(() => false)])
  if (!inTime)
    log.warn('attempts_abandoned', 'abandoned attempts in progress; the next start repeats them', {
      ...engine.stats(),
    })
  giveUp.abort()
  const lastWrites = Promise.all([drained, retained, outcomes.drain(), eventLog.drain()])
  // Others take released shards over at once, and the rest when the Lease has expired.
  await Promise.race([lastWrites.then(() => left), sleep(clock, LAST_WRITES_MS)])
  replica.stopRenewing()
  await leaderTasks.stop()
  await Promise.all(watchesOf(webhooks).map((watch) => watch.stop()))
}

/** Retries: the API server may start after the controller. */
async function untilAnswered<T>(
  { clock, log }: ControllerDependencies,
  signal: AbortSignal,
  read: () => Promise<T>,
): Promise<T> {
  for (;;) {
    try {
      return await read()
    } catch (error) {
      if (signal.aborted) throw error
      log.warn('api_server_unavailable', 'failed to reach the API server; retrying', { error })
      await sleep(clock, RETRY_MS, signal)
    }
  }
}
