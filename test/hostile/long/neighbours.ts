/** What one endpoint that hangs does to 999 others, as a ratio to the same load without it. */
import { setTimeout as sleep } from 'node:timers/promises'
import { type Bed, onBed } from '../../bench/bed.ts'
import { nextRun } from '../../bench/davit-load.ts'
import type { Route } from '../../bench/loads/publishing.ts'
import type { Quantiles } from '../../bench/measure/samples.ts'
import { report } from '../../bench/progress.ts'
import { makeEndpoints } from '../../bench/topology.ts'
import type { Figures } from '../figures.ts'

const ORGANIZATIONS = 37
const EACH = 27
const BODY_BYTES = 180
const LAST_RECEIPT_MS = 60_000

export type NeighboursPlan = { organizations: number; each: number; seconds: number; perSecond: number }

export const MANY_NEIGHBOURS: NeighboursPlan = {
  organizations: ORGANIZATIONS,
  each: EACH,
  seconds: 30,
  perSecond: 100,
}

export async function measureNeighbours(plan: NeighboursPlan): Promise<Figures> {
  return await onBed(async (bed) => {
    const controller = await bed.startController({ env: { DAVIT_DRAIN_SECONDS: '1' } })
    const { organizations, each: endpoints } = plan
    const one = { deliveryLog: 'Segments' } as const
    const good = await makeEndpoints(bed, {
      ...one,
      name: 'good',
      organizations,
      endpoints,
      path: '/ok/good',
    })
    const [hanging] = await makeEndpoints(bed, {
      ...one,
      name: 'hanging',
      organizations: 1,
      endpoints: 1,
      path: '/hang',
    })
    if (!hanging) throw new Error('there is no route')
    report(`${good.length} endpoints`)
    // The first round warms the engines up.
    await receiptsOf(bed, good, plan)
    const without = await receiptsOf(bed, good, plan)
    // Every tenth event hangs, so that its lane is never empty.
    const mixed = good.flatMap((route, i) => (i % 9 === 0 ? [route, hanging] : [route]))
    const withOne = await receiptsOf(bed, mixed, plan)
    const after = await receiptsOf(bed, good, plan)
    await controller.stop()
    const alone = (without.p99 + after.p99) / 2
    return {
      'good endpoints': good.length,
      'good events, each round': without.count,
      'good events beside the one that hangs, all received': withOne.count,
      'p99 without it, ms (before and after)': `${round(without.p99)} and ${round(after.p99)}`,
      'p99 beside it, ms': round(withOne.p99),
      'p99 beside it over that without': round(withOne.p99 / alone),
      'p50 beside it over that without': round(withOne.p50 / ((without.p50 + after.p50) / 2)),
    }
  })
}

/** Of the endpoints that do not hang. @throws Error when not all have come */
async function receiptsOf(
  bed: Bed,
  routes: readonly Route[],
  { seconds, perSecond }: NeighboursPlan,
): Promise<Quantiles> {
  const run = nextRun()
  await bed.receiver.call('begin', run)
  const published = await bed.publisher.call('publish', {
    run,
    routes,
    seconds,
    perSecond,
    bytes: BODY_BYTES,
  })
  const wanted = countOf(published.events, routes)
  const limit = performance.now() + LAST_RECEIPT_MS
  for (;;) {
    const { events, latency } = await bed.receiver.call('collect', '/ok/')
    if (events >= wanted) return latency
    if (performance.now() > limit) throw new Error(`${wanted} were accepted, ${events} received`)
    await sleep(200)
  }
}

function countOf(events: number, routes: readonly Route[]): number {
  const good = routes.map(({ namespace }) => (namespace.startsWith('good') ? 1 : 0))
  const inTurn = good.reduce<number>((sum, one) => sum + one, 0)
  const rest = good.slice(0, events % routes.length).reduce<number>((sum, one) => sum + one, 0)
  return Math.floor(events / routes.length) * inTurn + rest
}

function round(value: number): number {
  return Math.round(value * 100) / 100
}
