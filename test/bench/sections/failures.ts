/** When each failure of an endpoint has its object, while others get as much as goes through. */
import type { Publishers } from '../davit-load.ts'
import type { Route } from '../loads/publishing.ts'
import type { ObjectDelays } from '../measure/object-delays.ts'
import { followObjects } from '../measure/object-feed.ts'
import { report } from '../progress.ts'
import { type ServerClients, startClients } from '../rest-clients.ts'
import { startServerBed } from '../rest-server.ts'
import {
  assertNoneRefused,
  makeEndpointsWithKeys,
  onServerBed,
  runByRest,
  type ServerBed,
} from './server-bed.ts'
import { BODY_BYTES, PUBLISHERS, WINDOW } from './usual-load.ts'

export type FailuresUnderLoad = ObjectDelays & {
  failuresPerSecond: number
  /** Deliveries a second to all endpoints. */
  perSecond: number
}

const FAILURES_PER_SECOND = 5
const WARM_UP_SECONDS = 5
const HEALTHY = { name: 'healthy', organizations: 10, endpoints: 10, path: '/ok' }
const FAILING = { name: 'failing', organizations: 1, endpoints: 1, path: '/fail' }

export async function measureFailures(seconds: number): Promise<FailuresUnderLoad> {
  return await onServerBed(async (on) => {
    // A process of their own, so that failures do not wait for the clients at saturation.
    const failing = startClients()
    try {
      return await measureBeside(on, failing, seconds)
    } finally {
      await failing.stop()
    }
  })
}

async function measureBeside(
  on: ServerBed,
  failing: ServerClients,
  seconds: number,
): Promise<FailuresUnderLoad> {
  const server = await startServerBed(on.bed)
  const healthy = await makeEndpointsWithKeys(on.bed, HEALTHY)
  const { routes, keyFiles } = await makeEndpointsWithKeys(on.bed, FAILING)
  await on.clients.connect(server, healthy.keyFiles, PUBLISHERS)
  await failing.connect(server, keyFiles, PUBLISHERS)
  const feed = await followObjects(on.bed, routes)
  const load = { routes: healthy.routes, publishers: PUBLISHERS, window: WINDOW, bytes: BODY_BYTES }
  const publishers = withFailures(on.clients, failing, routes)
  await runByRest(on, server, { ...load, seconds: WARM_UP_SECONDS }, publishers)
  const result = await runByRest(on, server, { ...load, seconds }, publishers)
  assertNoneRefused(result)
  const delays = await feed.delaysOf(result.run, FAILING.path)
  report(
    `${delays.deliveries} failures at ${Math.round(result.perSecond)} deliveries/s, ` +
      `object after ${delays.object.delay.max.toFixed(0)} ms at most`,
  )
  await feed.stop()
  await server.stop()
  return { failuresPerSecond: FAILURES_PER_SECOND, perSecond: result.perSecond, ...delays }
}

/**
 * Both publish one load, and their deliveries are counted together. So are those that settled: clients at saturation may be ahead by as
 * many more as have failed.
 */
function withFailures(healthy: ServerClients, failing: ServerClients, routes: readonly Route[]): Publishers {
  return {
    settled: (deliveries) => healthy.settled(deliveries),
    async publish(load) {
      const { run, seconds, bytes } = load
      const failures = { run, seconds, bytes, routes, perSecond: FAILURES_PER_SECOND }
      const [published, failed] = await Promise.all([healthy.publish(load), failing.publish(failures)])
      return {
        ...published,
        events: published.events + failed.events,
        deliveries: published.deliveries + failed.deliveries,
        refused: published.refused + failed.refused,
      }
    },
  }
}
