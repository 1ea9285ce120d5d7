import { expect, it } from 'vitest'
import { PlaneBed } from '../../test/support/plane-bed.ts'
import type { ControllerParts } from './controller-parts.ts'
import { createShardWork } from './shard-work.ts'
import { SINGLETONS_SHARD, type Singletons } from './singletons.ts'

const nothing = () => undefined

it('a shard is delivered from though what one replica does for all cannot begin', async () => {
  const bed = new PlaneBed()
  bed.plane.start()
  const begun = Promise.withResolvers<void>()
  const { plane, follower, directory, api } = bed
  const work = createShardWork({
    world: { api, log: { info: nothing, warn: nothing, error: nothing } },
    shownUpTo: () => Number.POSITIVE_INFINITY,
    parts: {
      plane,
      follower,
      directory,
      retention: { objectFound: nothing, shardsLeft: nothing },
    } as unknown as ControllerParts,
    singletons: { start: () => begun.promise } as unknown as Singletons,
  })
  let isStarted = false
  void work.start([SINGLETONS_SHARD], new AbortController().signal).then(() => {
    isStarted = true
  })
  await bed.elapse(1000)
  expect(isStarted).toBe(true)
})
