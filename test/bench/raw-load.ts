/** The raw loop, from the bench's side. */

import { type Bed, RAW } from './bed.ts'
import { nextRun } from './davit-load.ts'
import { type Cost, costOf } from './measure/cost.ts'

export type RawLoad = { publishers: number; seconds: number; bytes: number }

/** Deliveries a second, and what they cost. */
export type RawRate = { perSecond: number; deliveries: number; cost: Cost }

/** As many sends at a time as an endpoint's `concurrency` allows by default. */
const CONCURRENCY = 8

export async function runRaw(bed: Bed, load: RawLoad): Promise<RawRate> {
  const { kubeconfigPath } = bed
  const run = nextRun()
  await bed.receiver.call('begin', run)
  const receiver = `${bed.receiverUrl}/ok/raw`
  const options = { ...load, kubeconfigPath, namespace: RAW, receiver, run, concurrency: CONCURRENCY }
  const { result, cost } = await costOf(bed, {}, () => bed.raw.call('run', options))
  const { deliveries, startedAt, endedAt } = result
  return { perSecond: deliveries / ((endedAt - startedAt) / 1e6), deliveries, cost }
}
