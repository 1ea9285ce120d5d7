/** The raw loops, from the bench's side. */

import type { RawObject } from '../../src/kube/client.ts'
import { type Bed, RAW } from './bed.ts'
import { nextRun } from './davit-load.ts'
import { type Cost, costOf } from './measure/cost.ts'
import type { RawResult } from './processes/raw.ts'

export type RawLoad = { publishers: number; seconds: number; bytes: number }

/** Deliveries a second, and what they cost. */
export type RawRate = { perSecond: number; deliveries: number; cost: Cost }

/** @param sample a delivery that Davit made */
export async function runRawObjects(bed: Bed, load: RawLoad, sample: RawObject): Promise<RawRate> {
  const { kubeconfigPath } = bed
  return await rateOf(bed, () => bed.raw.call('objects', { ...load, kubeconfigPath, namespace: RAW, sample }))
}

/** As many sends at a time as an endpoint's `concurrency` allows by default. */
const CONCURRENCY = 8

export async function runRawSegments(bed: Bed, load: RawLoad): Promise<RawRate> {
  const { kubeconfigPath } = bed
  const run = nextRun()
  await bed.receiver.call('begin', run)
  const receiver = `${bed.receiverUrl}/ok/raw`
  return await rateOf(bed, () =>
    bed.raw.call('segments', {
      ...load,
      kubeconfigPath,
      namespace: RAW,
      receiver,
      run,
      concurrency: CONCURRENCY,
    }),
  )
}

async function rateOf(bed: Bed, work: () => Promise<RawResult>): Promise<RawRate> {
  const { result, cost } = await costOf(bed, {}, work)
  const { deliveries, startedAt, endedAt } = result
  return { perSecond: deliveries / ((endedAt - startedAt) / 1e6), deliveries, cost }
}
