/** Saturation, latency and bursts: what one bed serves for. */
import type { DeliveryLogMode } from '../../../src/apis/webhook-endpoint.ts'
import { type Bed, onBed } from '../bed.ts'
import { describeVersions, type Facts } from '../machine.ts'
import { report } from '../progress.ts'
import type { Plan, SectionName } from '../settings.ts'
import { makeEndpoints } from '../topology.ts'
import {
  type EndpointOfEach,
  makeEndpointOfEach,
  runClosed,
  sampleDelivery,
  startWarm,
  WAYS,
} from './both-ways.ts'
import { type Burst, measureBurst } from './burst.ts'
import { type Latency, measureLatency } from './latency.ts'
import { measureSaturation, type Saturation } from './saturation.ts'

export type EngineResult = {
  versions: Facts
  saturation?: Record<DeliveryLogMode, Saturation>
  /** Deliveries a second at saturation over 100 endpoints in 10 organizations. */
  manyEndpoints?: Record<DeliveryLogMode, number>
  latency: Latency[]
  bursts: Burst[]
}

/** The rate at which the design states its latency. */
const FIXED_RATE = 500
/** Closer to saturation, a rate only shows how a queue grows. */
const MOST_OF_SATURATION = 0.8

export async function measureEngine(plan: Plan): Promise<EngineResult> {
  const has = (name: SectionName) => plan.sections.includes(name)
  return await onBed(async (bed) => {
    const result: EngineResult = {
      versions: await describeVersions(bed.controlPlane),
      latency: [],
      bursts: [],
    }
    const endpoints = await prepare(bed)
    const sample = await sampleDelivery(bed, endpoints.Objects)
    const rates = { Objects: FIXED_RATE, Segments: FIXED_RATE }
    if (has('saturation')) {
      const { rounds, saturationSeconds: seconds } = plan
      const saturation = await measureSaturation({ bed, endpoints, sample, rounds, seconds })
      for (const way of WAYS) rates[way] = saturation[way].perSecond.median
      result.saturation = saturation
    }
    await measureWarm(bed, plan, { endpoints, rates }, result)
    return result
  })
}

/** What one controller serves for that has been warmed up. */
async function measureWarm(
  bed: Bed,
  plan: Plan,
  known: { endpoints: EndpointOfEach; rates: Record<DeliveryLogMode, number> },
  result: EngineResult,
): Promise<void> {
  const { endpoints, rates } = known
  const controller = await startWarm(bed, endpoints)
  for (const way of WAYS) {
    const common = { bed, controller, way, routes: endpoints[way] }
    if (plan.sections.includes('latency')) {
      const seconds = plan.latencySeconds
      result.latency.push(await measureLatency({ ...common, seconds, perSecond: rates[way] / 2 }))
      if (FIXED_RATE <= rates[way] * MOST_OF_SATURATION)
        result.latency.push(await measureLatency({ ...common, seconds, perSecond: FIXED_RATE }))
    }
    if (plan.sections.includes('burst')) {
      result.bursts.push(await measureBurst({ ...common, events: plan.burst }))
    }
  }
  if (plan.sections.includes('saturation')) {
    const many = { Objects: 0, Segments: 0 }
    for (const way of WAYS) {
      const name = `many-${way.toLowerCase()}`
      const topology = { name, organizations: 10, endpoints: 10, deliveryLog: way, path: '/ok' }
      const routes = await makeEndpoints(bed, topology)
      many[way] = (await runClosed(bed, controller, { routes, seconds: plan.saturationSeconds })).perSecond
      report(`Davit with ${way} and 100 endpoints: ${Math.round(many[way])}/s`)
    }
    result.manyEndpoints = many
  }
  await controller.stop()
}

/** Endpoints with keys, and a first delivery of each. */
async function prepare(bed: Bed): Promise<EndpointOfEach> {
  const first = await bed.startController()
  const endpoints = await makeEndpointOfEach(bed)
  for (const way of WAYS) await runClosed(bed, first, { routes: endpoints[way], seconds: 1 })
  await first.stop()
  return endpoints
}
