/** What starts and stops with a shard: its deliveries, endpoints and events, and, with shard 0, the leader's tasks. */
import { shardOf } from '../ha/assignment.ts'
import type { ShardWork } from '../ha/coordinator.ts'
import { ShardTakeover } from '../webhooks/delivery/takeover.ts'
import type { WebhookControllers } from './controller.ts'
import type { ControllerDependencies } from './dependencies.ts'
import { LEADER_SHARD, type LeaderTasks } from './leader-tasks.ts'

export function createShardWork(
  { api, log }: Pick<ControllerDependencies, 'api' | 'log'>,
  webhooks: WebhookControllers,
  leaderTasks: LeaderTasks,
): ShardWork {
  const { engine, directory, retention, book, endpointLoop, eventLoop } = webhooks
  const takeover = new ShardTakeover({
    engine,
    follower: webhooks.follower,
    directory,
    resources: api,
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
      if (shards.has(LEADER_SHARD)) void leaderTasks.start()
      log.info('Shards were taken over', { shards: shards.size, ...found })
    },
    owned: (numbers) => {
      const shards = new Set(numbers)
      engine.wake(shards)
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
    },
  }
}
