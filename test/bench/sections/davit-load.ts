/** One load through Davit, until its last delivery is closed in the log. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Bed } from '../bed.ts'
import { sumOf } from '../measure/api-requests.ts'
import { type Cost, costOf } from '../measure/phase.ts'
import type { LoadPlan, Published } from '../processes/publisher.ts'
import type { Received } from '../processes/receiver.ts'

export type LoadResult = {
  published: Published
  received: Received
  /** Deliveries a second, from the first publish to the moment when the last outcome was durable. */
  perSecond: number
  /** Accepted, but not received, when the publishers stopped. */
  behind: number
  writesPerDelivery: number
  cost: Cost
}

export type LoadOptions = {
  bed: Bed
  controllerPid: number
  load: LoadPlan
  /** Receipts that count; absent: all. */
  path?: string
  /** How long the last outcome may take after the publishers stopped. */
  settleSeconds?: number
}

let lastRun = 0

export function nextRun(): number {
  lastRun += 1
  return lastRun
}

/** @throws Error when deliveries are lost or do not end in time */
export async function runLoad(options: LoadOptions): Promise<LoadResult> {
  const { bed, controllerPid } = options
  const run = nextRun()
  await bed.receiver.call('begin', run)
  bed.closings.reset()
  const { result, cost } = await costOf(bed, { controller: controllerPid }, async () => {
    const published = await bed.publisher.call('publish', { ...options.load, run })
    const behind = published.deliveries - (await bed.receiver.call('count', null))
    const settledAt = await settled(bed, published.deliveries, options.settleSeconds ?? 120)
    return { published, behind, settledAt }
  })
  const { published, behind, settledAt } = result
  const received = await bed.receiver.call('collect', options.path ?? '/ok')
  if (received.events < published.deliveries) {
    throw new Error(`${published.deliveries} deliveries were accepted, ${received.events} received`)
  }
  return {
    published,
    received,
    behind,
    perSecond: published.deliveries / ((settledAt - published.startedAt) / 1e6),
    writesPerDelivery: sumOf(cost.writes) / published.deliveries,
    cost,
  }
}

/** @returns when the last delivery was closed, in microseconds of `instant.ts` */
async function settled(bed: Bed, deliveries: number, seconds: number): Promise<number> {
  const end = performance.now() + seconds * 1000
  while (bed.closings.total.count < deliveries) {
    if (performance.now() > end) {
      throw new Error(`${deliveries} deliveries were accepted, ${bed.closings.total.count} closed`)
    }
    await sleep(20)
  }
  return bed.closings.total.lastAt
}
