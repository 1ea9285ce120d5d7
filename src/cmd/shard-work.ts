/** What is begun and ended with a shard: its lanes, the endpoints and events that belong to it, and what one replica does for all. */

import { shardOf } from '../ha/shard.ts'
import type { ShardWork } from '../ha/shard-work.ts'
import { ShardTakeover } from '../webhooks/delivery/takeover.ts'
import { LEADER_SHARD, type LeaderTasks } from './singletons.ts'
import type { WebhookControllers } from './webhook-controllers.ts'
import type { ControllerDependencies } from './world-types.ts'

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
    plane: engine,
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
