/** What endpoints of one organization that hang, or take as long as they may, do to those of others. */
import { setTimeout as sleep } from 'node:timers/promises'
import { configMaps } from '../../../src/apis/core-kinds.ts'
import { webhookEndpoints } from '../../../src/apis/webhook-endpoint.ts'
import { type Bed, onBed, startPublisher } from '../bed.ts'
import { nextRun } from '../davit-load.ts'
import { openLoop } from '../loads/pace.ts'
import type { Route } from '../loads/publishing.ts'
import { type Beside, inTurn, type Rounds, ratioOf } from '../measure/in-turn.ts'
import { busySince, machineTicks } from '../measure/machine-usage.ts'
import type { Quantiles } from '../measure/samples.ts'
import { report } from '../progress.ts'
import { type EndpointRoute, makeEndpoints } from '../topology.ts'
import { BODY_BYTES, makeEndpoint, startWarm } from './usual-load.ts'

/** Receipts of the endpoints that do not hang, in milliseconds. */
export type Isolation = Beside & {
  perSecond: number
  /** Nothing hangs, and another process creates as many objects as Davit does for the hanging endpoint. */
  made: Rounds
  /** Another organization has every place for an attempt, at endpoints that succeed a second before the deadline. */
  slow: Rounds
  /** The same events to endpoints that answer at once, and another process makes and changes as many objects. */
  slowMade: Rounds
  /** Another organization publishes bodies that are nearly as large as they may be. */
  large: Rounds
  /** Another process creates objects as large, and as many. */
  largeMade: Rounds
  /** Share of the cores that was busy meanwhile, in the last round of each. */
  busy: Readonly<Record<string, number>>
}

export type IsolationPlan = { rounds: number; seconds: number }

type Rate = { seconds: number; perSecond: number }

/** Below saturation on two cores, where a queue would hide what the endpoint that hangs does. */
const PER_SECOND = 300
/** One of so many events goes to the endpoint that hangs. */
const ONE_OF = 10
/** More places than one replica has for attempts, taken by as many deliveries as end meanwhile. */
const SLOW = { endpoints: 64, concurrency: 32, perSecond: 120 }
/** In half a minute, half of what an organization may write in ten minutes, in which three rounds follow each other. */
const LARGE = { bytes: 250 * 1024, perSecond: 25 }
/**
 * Until they have all places, and what began before any of them had succeeded has ended: until then, each delivery gets an object, as
 * nothing tells these endpoints from ones that hang.
 */
const FILL_SECONDS = 45
/** Of a delivery's object. */
const OBJECT_BYTES = 1600
/** Attempts that hang are not waited for at the end. */
export const SHORT_DRAIN = { DAVIT_SHUTDOWN_TIMEOUT: '1s' }
/** After the last event, for the last receipt. */
const LAST_RECEIPT_MS = 60_000
/** What hangs is over by then. */
const ATTEMPT_MS = 22_000
const POLL_MS = 200

export async function measureIsolation(plan: IsolationPlan): Promise<Isolation> {
  return await onBed(async (bed) => {
    const controller = await startWarm(bed, await makeEndpoint(bed), SHORT_DRAIN)
    const result = await measureRunning(bed, plan)
    await controller.stop()
    return result
  })
}

async function measureRunning(bed: Bed, { rounds, seconds }: IsolationPlan): Promise<Isolation> {
  const make = async (name: string, path: string) => {
    const [route] = await makeEndpoints(bed, { name, organizations: 1, endpoints: 1, path })
    if (!route) throw new Error('there is no route')
    return route
  }
  const good = await make('good', '/ok/good')
  const other = await make('other', '/ok/other')
  const hanging = await make('hanging', '/hang')
  const { endpoints, concurrency } = SLOW
  const slow = await makeEndpoints(bed, {
    name: 'slow',
    organizations: 1,
    path: '/slow',
    endpoints,
    concurrency,
  })
  const large = await make('large', '/ok/large')
  // A second one, so that large bodies take no time from the load that is measured.
  const heavy = await startPublisher(bed.kubeconfigPath)
  await heavy.call('list', [large.namespace])
  const rate = { seconds, perSecond: PER_SECOND }
  const mixed = (last: Route) => [...Array.from({ length: ONE_OF - 1 }, () => good), last]
  const busy: Record<string, number> = {}
  const noting = (name: string, work: () => Promise<Quantiles>) => async () => {
    const before = machineTicks()
    const quantiles = await work()
    busy[name] = busySince(before)
    return quantiles
  }
  const made = (perSecond: number, bytes: number, how?: 'changed') =>
    makeObjects(bed, other, { seconds, perSecond, bytes, isChanged: how === 'changed' })
  const usual = noting('alone', async () => await receiptsOf(bed, mixed(other), rate))
  const found = await inTurn(rounds, {
    without: usual,
    beside: noting('beside', async () =>
      whileItHangs(bed, hanging, async () => await receiptsOf(bed, mixed(hanging), rate)),
    ),
    made: noting('made', async () => {
      const writes = made(rate.perSecond / ONE_OF, OBJECT_BYTES)
      const [found] = await Promise.all([receiptsOf(bed, mixed(other), rate), writes])
      return found
    }),
    slow: noting('slow', async () =>
      whileEnabled(bed, slow, async () => await besideSlow(bed, { good, other, slow }, rate)),
    ),
    slowMade: noting('slowMade', async () => {
      const all = slow.map(() => other)
      const [found] = await Promise.all([
        receiptsOf(bed, mixedWith(all, { good, other }, rate), sumOf(rate)),
        made(SLOW.perSecond, OBJECT_BYTES, 'changed'),
      ])
      return found
    }),
    large: noting('large', async () => {
      const load = { run: nextRun(), routes: [large], seconds, ...LARGE }
      const [found] = await Promise.all([receiptsOf(bed, mixed(other), rate), heavy.call('publish', load)])
      return found
    }),
    largeMade: noting('largeMade', async () => {
      const writes = made(LARGE.perSecond, LARGE.bytes)
      const [found] = await Promise.all([receiptsOf(bed, mixed(other), rate), writes])
      return found
    }),
  })
  await heavy.stop()
  const byMade = ratioOf({ without: found.made, beside: found.beside }, 'p99')
  const byLarge = ratioOf({ without: found.without, beside: found.large }, 'p99')
  const bySlow = ratioOf({ without: found.without, beside: found.slow }, 'p99')
  const slowByMade = ratioOf({ without: found.slowMade, beside: found.slow }, 'p99')
  const largeByMade = ratioOf({ without: found.largeMade, beside: found.large }, 'p99')
  report(
    `p99 while another organization has every place over that without: ${bySlow.toFixed(2)}, ` +
      `over that where another process makes the objects: ${slowByMade.toFixed(2)}`,
  )
  report(
    `p99 while another organization publishes large bodies over that without: ${byLarge.toFixed(2)}, ` +
      `over that where another process makes the objects: ${largeByMade.toFixed(2)}`,
  )
  report(
    `p99 beside one that hangs over that without: ${ratioOf(found, 'p99').toFixed(2)}, ` +
      `over that where another process makes the objects: ${byMade.toFixed(2)}`,
  )
  return { perSecond: PER_SECOND, busy, ...found }
}

/** The same load as without, while the slow endpoints get as much as they take. */
async function besideSlow(
  bed: Bed,
  { good, other, slow }: { good: Route; other: Route; slow: readonly Route[] },
  { seconds, perSecond }: Rate,
): Promise<Quantiles> {
  const fill = { run: nextRun(), routes: slow, seconds: FILL_SECONDS, bytes: BODY_BYTES }
  await bed.receiver.call('begin', fill.run)
  await bed.publisher.call('publish', { ...fill, perSecond: SLOW.perSecond })
  const rate = { seconds, perSecond }
  return await receiptsOf(bed, mixedWith(slow, { good, other }, rate), sumOf(rate))
}

/** The usual load and the other, evenly mixed. */
function mixedWith(
  slow: readonly Route[],
  { good, other }: { good: Route; other: Route },
  { perSecond }: Rate,
): Route[] {
  const every = (perSecond * slow.length) / SLOW.perSecond
  const usual = Array.from({ length: every }, (_, n) => (n % ONE_OF === 0 ? other : good))
  return slow.flatMap((one, n) => [
    one,
    ...usual.slice(Math.round((n * every) / slow.length), Math.round(((n + 1) * every) / slow.length)),
  ])
}

function sumOf({ seconds, perSecond }: Rate): Rate {
  return { seconds, perSecond: perSecond + SLOW.perSecond }
}

/** Of a kind that Davit does not look at. @param of `isChanged`: each is changed once, as a status is written */
async function makeObjects(
  { api }: Bed,
  { namespace }: EndpointRoute,
  of: Rate & { bytes: number; isChanged: boolean },
): Promise<void> {
  const data = { padding: 'x'.repeat(of.bytes) }
  const run = nextRun()
  await openLoop(of, async (n) => {
    const ref = { namespace, name: `made-${run}-${n}` }
    await api.create(configMaps, { apiVersion: 'v1', kind: 'ConfigMap', metadata: ref, data })
    if (of.isChanged) await api.patch(configMaps, ref, { data: { state: 'changed' } })
  })
}

/** Enabled for this long; afterwards none of its work is in progress, and the rest waits. */
export async function whileItHangs<T>(bed: Bed, route: EndpointRoute, work: () => Promise<T>): Promise<T> {
  return await whileEnabled(bed, [route], work)
}

/** The same for several. */
export async function whileEnabled<T>(
  bed: Bed,
  routes: readonly EndpointRoute[],
  work: () => Promise<T>,
): Promise<T> {
  const setState = async (state: string) => {
    for (const { namespace, endpoint: name } of routes)
      await bed.api.patch(webhookEndpoints, { namespace, name }, { spec: { state } })
  }
  await setState('enabled')
  try {
    return await work()
  } finally {
    await setState('disabled')
    await sleep(ATTEMPT_MS)
  }
}

/** Of those whose path is `/ok/good`. @throws Error when not all have come */
export async function receiptsOf(bed: Bed, routes: readonly Route[], rate: Rate): Promise<Quantiles> {
  const run = nextRun()
  await bed.receiver.call('begin', run)
  const { events } = await bed.publisher.call('publish', { run, routes, ...rate, bytes: BODY_BYTES })
  const wanted = countOfGood(events, routes)
  const limit = performance.now() + LAST_RECEIPT_MS
  for (;;) {
    const received = await bed.receiver.call('collect', '/ok/good')
    if (received.events >= wanted) return received.latency
    if (performance.now() > limit) throw new Error(`${wanted} were accepted, ${received.events} received`)
    await sleep(POLL_MS)
  }
}

/** Routes are taken in turn. */
function countOfGood(events: number, routes: readonly Route[]): number {
  const good = routes.map(({ namespace }) => (/^good-\d+$/.test(namespace) ? 1 : 0))
  const inOne = good.reduce<number>((sum, one) => sum + one, 0)
  const rest = good.slice(0, events % routes.length).reduce<number>((sum, one) => sum + one, 0)
  return Math.floor(events / routes.length) * inOne + rest
}
