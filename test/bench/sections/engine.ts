/** Saturation and latency: what one bed serves for. */
import { type Bed, onBed } from '../bed.ts'
import type { Route } from '../loads/publishing.ts'
import { describeVersions, type Facts } from '../machine.ts'
import { report } from '../progress.ts'
import type { Plan } from '../settings.ts'
import { makeEndpoints } from '../topology.ts'
import { type Latency, measureLatency } from './latency.ts'
import { measureSaturation, type Saturation } from './saturation.ts'
import { makeEndpoint, runClosed, startWarm } from './usual-load.ts'

export type EngineResult = {
  versions: Facts
  saturation?: Saturation
  /** Deliveries a second at saturation over 100 endpoints in 10 organizations. */
  manyEndpoints?: number
  latency: Latency[]
}

/** The rate at which the design states its latency. */
const FIXED_RATE = 500
/** Closer to saturation, a rate only shows how a queue grows. */
const MOST_OF_SATURATION = 0.8

export async function measureEngine(plan: Plan): Promise<EngineResult> {
  return await onBed(async (bed) => {
    const result: EngineResult = { versions: await describeVersions(bed.controlPlane), latency: [] }
    const routes = await makeEndpoint(bed)
    if (plan.sections.includes('saturation')) {
      const { rounds, saturationSeconds: seconds } = plan
      result.saturation = await measureSaturation({ bed, routes, rounds, seconds })
    }
    await measureWarm(bed, plan, routes, result)
    return result
  })
}

/** What one controller serves for that has been warmed up. */
async function measureWarm(
  bed: Bed,
  plan: Plan,
  routes: readonly Route[],
  result: EngineResult,
): Promise<void> {
  const controller = await startWarm(bed, routes)
  const common = { bed, controller, routes }
  if (plan.sections.includes('latency')) {
    const seconds = plan.latencySeconds
    const rate = result.saturation?.perSecond.median ?? FIXED_RATE
    result.latency.push(await measureLatency({ ...common, seconds, perSecond: rate / 2 }))
    if (FIXED_RATE <= rate * MOST_OF_SATURATION)
      result.latency.push(await measureLatency({ ...common, seconds, perSecond: FIXED_RATE }))
  }
  if (plan.sections.includes('saturation')) {
    const many = await makeEndpoints(bed, { name: 'many', organizations: 10, endpoints: 10, path: '/ok' })
    const load = { routes: many, seconds: plan.saturationSeconds }
    const { perSecond } = await runClosed(bed, controller, load)
    report(`Davit with 100 endpoints: ${Math.round(perSecond)}/s`)
    result.manyEndpoints = perSecond
  }
  await controller.stop()
}
