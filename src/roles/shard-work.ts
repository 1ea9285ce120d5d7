/** What is begun and ended with a shard: its lanes, the endpoints and events that belong to it, and what one replica does for all. */
import { TakeOver } from '../controllers/delivery/take-over.ts'
import { shardOf } from '../domain/shard.ts'
import type { ShardWork } from '../runtime/shards/shard-work.ts'
import type { ControllerParts } from './controller-parts.ts'
import { SINGLETONS_SHARD, type Singletons } from './singletons.ts'
import type { World } from './world-types.ts'

export type ShardWorkOptions = {
  world: Pick<World, 'api' | 'log'>
  /** Every segment of the log up to this version was shown by the watch. */
  shownUpTo: () => number
  parts: ControllerParts
  singletons: Singletons
}

export function createShardWork({ world, shownUpTo, parts, singletons }: ShardWorkOptions): ShardWork {
  const { plane, follower, directory, retention, book } = parts
  const takeOver = new TakeOver({
    plane,
    follower,
    directory,
    resources: world.api,
    shownUpTo,
    onFound: (outline, isOurs) => retention.objectFound(outline, isOurs),
  })
  return {
    start: async (numbers, signal) => {
      const shards = new Set(numbers)
      // A start that failed may have told of some.
      retention.shardsLeft(shards)
      const found = await takeOver.start(shards, signal)
      if (shards.has(SINGLETONS_SHARD)) void singletons.start()
      world.log.info('Shards were taken over', { shards: shards.size, ...found })
    },
    owned: (numbers) => {
      const shards = new Set(numbers)
      plane.wake(shards)
      for (const { endpoint } of directory.all()) {
        const { uid, namespace, name } = endpoint.metadata
        if (shards.has(shardOf(uid))) parts.endpointLoop.add(`${namespace}/${name}`)
      }
      for (const organization of book.organizations())
        if (shards.has(shardOf(organization))) parts.eventLoop.add(organization)
    },
    stop: async (shard) => {
      const others = [parts.endpointPasses.idle(shard), parts.eventPasses.idle(shard)]
      if (shard === SINGLETONS_SHARD) others.push(singletons.stop())
      // Its part of the bound goes with it.
      const shards = new Set([shard])
      retention.shardsLeft(shards)
      await Promise.all([takeOver.end(shards), ...others])
      for (const organization of book.organizations())
        if (shards.has(shardOf(organization))) parts.eventsReconciler.left(organization)
      retention.shardsLeft(shards)
      parts.streaks.forget(shard)
    },
  }
}
