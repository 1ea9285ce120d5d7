/** A long run at half of saturation, with retention and the API server's compaction of etcd at work. */
import { type Bed, onBed } from '../bed.ts'
import { runLoad } from '../davit-load.ts'
import { type Footprint, sampleFootprints } from '../measure/footprint.ts'
import type { Quantiles } from '../measure/samples.ts'
import { report } from '../progress.ts'
import { BODY_BYTES, makeEndpoint, runClosed, startWarm } from './usual-load.ts'

export type Soak = {
  bytes: number
  /** Deliveries a second at saturation, measured just before, and of the long run. */
  saturation: number
  perSecond: number
  /** Milliseconds. */
  receipt: Quantiles
  writesPerDelivery: number
  /** Every ten seconds. */
  timeline: { events: number; p50: number; p99: number }[]
  /** Every ten seconds. */
  footprints: Footprint[]
}

const SATURATION_SECONDS = 10
/** Short enough to be at work from the second minute on. */
const RETENTION = {
  DAVIT_RETENTION_SUCCEEDED: '1m',
  DAVIT_RETENTION_FAILED: '1m',
  DAVIT_MAX_LOG_BYTES: String(32 * 2 ** 20),
}
const LARGE_BODY_BYTES = 4096

/** With small bodies, and with large ones. */
export async function measureSoak(minutes: number): Promise<Soak[]> {
  return [await soak(BODY_BYTES, minutes), await soak(LARGE_BODY_BYTES, minutes)]
}

async function soak(bytes: number, minutes: number): Promise<Soak> {
  return await onBed(async (bed) => {
    const { controller, routes, saturation } = await saturate(bed)
    const perSecond = Math.round(saturation / 2)
    report(`${bytes} bytes: ${minutes} minutes at ${perSecond}/s`)
    const sampling = sampleFootprints(bed, controller)
    const load = { routes, seconds: minutes * 60, perSecond, bytes }
    const result = await runLoad({ bed, controllerPid: controller.pid, load })
    const footprints = await sampling.stop()
    await controller.stop()
    return {
      bytes,
      saturation,
      perSecond: result.perSecond,
      receipt: result.received.latency,
      writesPerDelivery: result.writesPerDelivery,
      timeline: result.received.timeline,
      footprints,
    }
  })
}

async function saturate(bed: Bed) {
  const routes = await makeEndpoint(bed)
  const controller = await startWarm(bed, routes, RETENTION)
  const { perSecond } = await runClosed(bed, controller, { routes, seconds: SATURATION_SECONDS })
  return { controller, routes, saturation: perSecond }
}
