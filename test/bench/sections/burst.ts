/** Many events at once, to an endpoint that takes them as they come. */
import type { Bed } from '../bed.ts'
import type { Controller } from '../controller.ts'
import { runLoad } from '../davit-load.ts'
import type { Route } from '../loads/publishing.ts'
import type { Quantiles } from '../measure/samples.ts'
import { report } from '../progress.ts'
import { BODY_BYTES } from './usual-load.ts'

export type Burst = {
  events: number
  /** Until the last was received, and until the last was settled. */
  receivedSeconds: number
  settledSeconds: number
  /** Milliseconds. */
  receipt: Quantiles
  writesPerDelivery: number
}

/** All events are due within a second. */
const SECONDS = 1
const SETTLE_SECONDS = 300

export async function measureBurst(options: {
  bed: Bed
  controller: Controller
  routes: readonly Route[]
  events: number
}): Promise<Burst> {
  const { bed, controller, routes, events } = options
  const load = { routes, seconds: SECONDS, perSecond: events / SECONDS, bytes: BODY_BYTES }
  const result = await runLoad({ bed, controllerPid: controller.pid, load, settleSeconds: SETTLE_SECONDS })
  const { published, received, perSecond } = result
  const settledSeconds = published.deliveries / perSecond
  report(`${events} at once settled after ${settledSeconds.toFixed(1)} s`)
  return {
    events,
    receivedSeconds: (received.lastAt - published.startedAt) / 1e6,
    settledSeconds,
    receipt: received.latency,
    writesPerDelivery: result.writesPerDelivery,
  }
}
