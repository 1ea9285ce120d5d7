import { expect, it } from 'vitest'
import { EngineBed } from '../../test/support/engine-bed.ts'
import { createShardWork, LEADER_SHARD, type LeaderTasks } from './controller.ts'
import type { WebhookControllers } from './webhook-controllers.ts'

const nothing = () => undefined

it('a shard is delivered from though what one replica does for all cannot begin', async () => {
  const bed = new EngineBed()
  bed.engine.start()
  const begun = Promise.withResolvers<void>()
  const { engine, follower, directory, api } = bed
  const work = createShardWork({
    world: { api, log: { info: nothing, warn: nothing, error: nothing } },
    observedVersion: () => Number.POSITIVE_INFINITY,
    parts: {
      engine: engine,
      follower,
      directory,
      retention: { objectFound: nothing, shardsLeft: nothing },
    } as unknown as WebhookControllers,
    leaderTasks: { start: () => begun.promise } as unknown as LeaderTasks,
  })
  let isStarted = false
  void work.start([LEADER_SHARD], new AbortController().signal).then(() => {
    isStarted = true
  })
  await bed.elapse(1000)
  expect(isStarted).toBe(true)
})
