/** How long an event takes to its receiver below saturation. */
import type { Bed } from '../bed.ts'
import type { Controller } from '../controller.ts'
import { runLoad } from '../davit-load.ts'
import type { Route } from '../loads/publishing.ts'
import { residentBytes } from '../measure/process-usage.ts'
import type { Quantiles } from '../measure/samples.ts'
import { report } from '../progress.ts'
import { BODY_BYTES } from './usual-load.ts'

/** At a rate. Milliseconds. */
export type Latency = {
  perSecond: number
  receipt: Quantiles
  accepted: Quantiles
  writesPerDelivery: number
  cpuPerDelivery: Record<string, number>
  /** MiB that the controller holds at the end. */
  controllerMiB: number
}

export type LatencyOptions = {
  bed: Bed
  controller: Controller
  routes: readonly Route[]
  perSecond: number
  seconds: number
}

export async function measureLatency(options: LatencyOptions): Promise<Latency> {
  const { bed, controller, routes, seconds } = options
  const perSecond = Math.round(options.perSecond)
  const load = { routes, seconds, perSecond, bytes: BODY_BYTES }
  const result = await runLoad({ bed, controllerPid: controller.pid, load })
  const { latency } = result.received
  report(`at ${perSecond}/s: p50 ${latency.p50.toFixed(1)} ms, p99 ${latency.p99.toFixed(1)} ms`)
  return {
    perSecond,
    receipt: latency,
    accepted: result.published.accepted,
    writesPerDelivery: result.writesPerDelivery,
    cpuPerDelivery: result.cpuPerDelivery,
    controllerMiB: residentBytes(controller.pid) / 2 ** 20,
  }
}
