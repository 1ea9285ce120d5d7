/** Deliveries that succeed, at the rate at which each is to have its object. */

import type { ObjectDelays } from '../measure/object-delays.ts'
import { followObjects } from '../measure/object-feed.ts'
import { report } from '../progress.ts'
import { startServerBed } from '../rest-server.ts'
import { assertNoneRefused, onServerBed, runByRest } from './server-bed.ts'
import { BODY_BYTES, PUBLISHERS } from './usual-load.ts'

export type SteadyObjects = ObjectDelays & { perSecond: number }

/** The default of DAVIT_VIEWS_PER_SECOND. */
const PER_SECOND = 15
/** The first objects of a kind take an API server seconds. */
const WARM_UP_SECONDS = 5

export async function measureObjects(seconds: number): Promise<SteadyObjects> {
  return await onServerBed(
    async (on) => {
      const server = await startServerBed(on.bed)
      await on.clients.connect(server, on.keyFiles, PUBLISHERS)
      const feed = await followObjects(on.bed, on.routes)
      const load = { routes: on.routes, perSecond: PER_SECOND, bytes: BODY_BYTES }
      const delaysOver = async (duration: number) => {
        const result = await runByRest(on, server, { ...load, seconds: duration })
        assertNoneRefused(result)
        return await feed.delaysOf(result.run, '/ok')
      }
      await delaysOver(WARM_UP_SECONDS)
      const delays = await delaysOver(seconds)
      report(`${delays.deliveries} successes, object after ${delays.object.delay.max.toFixed(0)} ms at most`)
      await feed.stop()
      await server.stop()
      return { perSecond: PER_SECOND, ...delays }
    },
    // After a load at saturation, objects of that load would still be waiting for their turn.
    (bed) => bed.startController(),
  )
}
