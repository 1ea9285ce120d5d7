/** What an endpoint that hangs does to the others. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { DeliveryLogMode } from '../../../src/api/webhook-endpoint.ts'
import { type Bed, onBed } from '../bed.ts'
import { nextRun } from '../davit-load.ts'
import type { Route } from '../loads/publishing.ts'
import type { Quantiles } from '../measure/samples.ts'
import { report } from '../progress.ts'
import { makeEndpoints } from '../topology.ts'
import { BODY_BYTES, makeEndpointOfEach, startWarm, WAYS } from './both-ways.ts'

/** Receipts of the endpoints that do not hang, in milliseconds. */
export type Isolation = { way: DeliveryLogMode; perSecond: number; without: Quantiles; with: Quantiles }

/** Below saturation on two cores, where a queue would hide what the endpoint that hangs does. */
const PER_SECOND: Record<DeliveryLogMode, number> = { Objects: 100, Segments: 300 }
/** One of so many events goes to the endpoint that hangs. */
const ONE_OF = 10
/** Attempts that hang are not waited for at the end. */
const SHORT_DRAIN = { DAVIT_DRAIN_SECONDS: '1' }
/** After the last event, for the last receipt. */
const LAST_RECEIPT_MS = 60_000
const POLL_MS = 200

export async function measureIsolation(seconds: number): Promise<Isolation[]> {
  return await onBed(async (bed) => {
    const controller = await startWarm(bed, await prepare(bed), SHORT_DRAIN)
    const results: Isolation[] = []
    for (const way of WAYS) {
      const name = way.toLowerCase()
      const one = { organizations: 1, endpoints: 1, deliveryLog: way }
      const good = await makeEndpoints(bed, { ...one, name: `${name}-good`, path: '/ok/good' })
      const other = await makeEndpoints(bed, { ...one, name: `${name}-other`, path: '/ok/other' })
      const hanging = await makeEndpoints(bed, { ...one, name: `${name}-hanging`, path: '/hang' })
      const result = {
        way,
        perSecond: PER_SECOND[way],
        without: await receiptsOf(bed, [good, other], { seconds, perSecond: PER_SECOND[way] }),
        with: await receiptsOf(bed, [good, hanging], { seconds, perSecond: PER_SECOND[way] }),
      }
      report(
        `${way}: p99 ${result.without.p99.toFixed(1)} ms, with one that hangs ${result.with.p99.toFixed(1)} ms`,
      )
      results.push(result)
    }
    await controller.stop()
    return results
  })
}

/** Their keys are made by a controller without load. */
async function prepare(bed: Bed) {
  const first = await bed.startController()
  const endpoints = await makeEndpointOfEach(bed)
  await first.stop()
  return endpoints
}

async function receiptsOf(
  bed: Bed,
  [[good], [other]]: [readonly Route[], readonly Route[]],
  rate: { seconds: number; perSecond: number },
): Promise<Quantiles> {
  if (!good || !other) throw new Error('there are no routes')
  const run = nextRun()
  await bed.receiver.call('begin', run)
  const routes = [...Array.from({ length: ONE_OF - 1 }, () => good), other]
  const load = { run, routes, ...rate, bytes: BODY_BYTES }
  const published = await bed.publisher.call('publish', load)
  return await receipts(bed, published.events - Math.floor(published.events / ONE_OF))
}

/** Of the endpoint that never hangs. @throws Error when not all have come */
async function receipts(bed: Bed, wanted: number): Promise<Quantiles> {
  const limit = performance.now() + LAST_RECEIPT_MS
  for (;;) {
    const { events, latency } = await bed.receiver.call('collect', '/ok/good')
    if (events >= wanted) return latency
    if (performance.now() > limit) throw new Error(`${wanted} were accepted, ${events} received`)
    await sleep(POLL_MS)
  }
}
