/** One load through Davit, until its last delivery has settled: received, and closed in the log. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Bed } from './bed.ts'
import type { Load, LoadPlan, Published } from './loads/publishing.ts'
import { sumOf } from './measure/api-requests.ts'
import { type Cost, costOf } from './measure/cost.ts'
import type { Received } from './processes/receiver.ts'

export type LoadResult = {
  /** In the stamps of its events. */
  run: number
  published: Published
  received: Received
  /** Settled deliveries a second, from the first publish to the moment when the last outcome was durable. */
  perSecond: number
  /** Of all kinds, at the API server, for each delivery. */
  writesPerDelivery: number
  /** CPU milliseconds for each delivery, by process. */
  cpuPerDelivery: Record<string, number>
  cost: Cost
}

/** The publishers: the bed's own, and clients of the REST server. */
export type Publishers = {
  publish(load: Load): Promise<Published>
  settled(deliveries: number): Promise<void>
}

export type LoadOptions = {
  bed: Bed
  controllerPid: number
  load: LoadPlan
  /** Absent: the bed's publisher, which appends without HTTP. */
  publishers?: Publishers
  /** Further processes whose CPU counts, by name. */
  pids?: Record<string, number>
}

const TICK_MS = 20
/** How long the last delivery may take after the publishers stopped. */
const SETTLE_LIMIT_MS = 120_000

let lastRun = 0

/** A number that no load had. */
export function nextRun(): number {
  lastRun += 1
  return lastRun
}

/** @throws Error when deliveries are lost or do not settle in time */
export async function runLoad(options: LoadOptions): Promise<LoadResult> {
  const { bed, load } = options
  const run = nextRun()
  const publishers = options.publishers ?? directPublishers(bed)
  const pids = { controller: options.controllerPid, ...options.pids }
  await bed.receiver.call('begin', run)
  bed.closings.reset()
  const { result, cost } = await costOf(bed, pids, async () => {
    const publishing = publishers.publish({ ...load, run })
    const limitMs = load.seconds * 1000 + SETTLE_LIMIT_MS
    const settled = (deliveries: number) => publishers.settled(deliveries)
    return await settle(bed, { publishing, settled, limit: performance.now() + limitMs })
  })
  const { published, settledAt } = result
  const { deliveries } = published
  const perDelivery = (ms: number) => ms / deliveries
  return {
    run,
    published,
    received: await bed.receiver.call('collect', '/ok'),
    perSecond: deliveries / ((settledAt - published.startedAt) / 1e6),
    writesPerDelivery: sumOf(cost.writes) / deliveries,
    cpuPerDelivery: Object.fromEntries(Object.entries(cost.cpu).map(([name, ms]) => [name, perDelivery(ms)])),
    cost,
  }
}

function directPublishers({ publisher }: Bed): Publishers {
  return {
    publish: (load) => publisher.call('publish', load),
    settled: (deliveries) => publisher.call('settled', deliveries),
  }
}

type Running = {
  publishing: Promise<Published>
  settled: Publishers['settled']
  /** Of performance.now(). */
  limit: number
}

/** @returns also when the last delivery settled, in microseconds of `instant.ts` */
async function settle(
  bed: Bed,
  { publishing, settled, limit }: Running,
): Promise<{ published: Published; settledAt: number }> {
  let published: Published | undefined
  publishing.then(
    (result) => {
      published = result
    },
    () => undefined,
  )
  for (;;) {
    const closed = bed.closings.total
    await settled(closed.count)
    const received = await bed.receiver.call('count', null)
    // One that was given an object before it was sent is closed in the log, and still to be received.
    if (published && closed.count >= published.deliveries && received >= published.deliveries) {
      if (received > published.deliveries + published.refused)
        throw new Error(`${published.deliveries} deliveries were accepted, ${received} received`)
      const { lastAt } = await bed.receiver.call('collect', '/')
      return { published, settledAt: Math.max(closed.lastAt, lastAt) }
    }
    if (performance.now() > limit) {
      const accepted = published?.deliveries ?? 'an unknown number of'
      throw new Error(`${accepted} deliveries were accepted, ${closed.count} closed, ${received} received`)
    }
    await Promise.race([sleep(TICK_MS), publishing])
    if (published) await sleep(TICK_MS)
  }
}
