import { expect, it } from 'vitest'
import { EngineBed } from '../../test/support/engine-bed.ts'
import type { WebhookControllers } from './controller.ts'
import { LEADER_SHARD, type LeaderTasks } from './leader-tasks.ts'
import { createShardWork } from './start-controller.ts'

const nothing = () => undefined

it('a shard is delivered from though what one replica does for all cannot begin, which waits until nobody else does it', async () => {
  const bed = new EngineBed()
  bed.engine.start()
  const begun = Promise.withResolvers<void>()
  const { engine, follower, directory } = bed
  const log = { info: nothing, warn: nothing, error: nothing }
  const webhooks = {
    engine,
    follower,
    directory,
    retention: { objectFound: nothing, shardsLeft: nothing },
    book: { organizations: () => [] },
    watches: { log: { version: Number.POSITIVE_INFINITY } },
  } as unknown as WebhookControllers
  let starts = 0
  const leaderTasks = {
    start: () => {
      starts += 1
      return begun.promise
    },
  } as unknown as LeaderTasks
  const work = createShardWork({ log }, webhooks, leaderTasks)
  let isStarted = false
  void work.start([LEADER_SHARD], new AbortController().signal).then(() => {
    isStarted = true
  })
  await bed.elapse(1000)
  expect(isStarted).toBe(true)
  work.owned([LEADER_SHARD])
  expect(starts).toBe(0)
  work.ownedAlone([LEADER_SHARD])
  expect(starts).toBe(1)
})
