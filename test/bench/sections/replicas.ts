/** What several controllers cost that share the work, against one alone in the same round. */
import type { DeliveryLogMode } from '../../../src/api/webhook-endpoint.ts'
import { type Bed, onBed } from '../bed.ts'
import type { Controller } from '../controller.ts'
import { type LoadResult, runLoad } from '../davit-load.ts'
import type { LoadPlan, Route } from '../loads/publishing.ts'
import { residentBytes } from '../measure/process-usage.ts'
import { type Spread, spreadOf } from '../measure/samples.ts'
import { report } from '../progress.ts'
import { makeEndpoints } from '../topology.ts'
import { BODY_BYTES, PUBLISHERS, WAYS, WINDOW } from './both-ways.ts'

export type ReplicasPlan = {
  rounds: number
  /**
   * Of each way, at saturation, for each controller: each process translates its code anew, and one of three takes three times
   * as long to have run it often enough.
   */
  warmUpSeconds: number
  seconds: number
  /** Low rates, all of them together. */
  perSecond: readonly number[]
  /** A load of each of them: how much of its own a controller has says what its deliveries cost more than anything else. */
  each: Readonly<Record<DeliveryLogMode, number>>
}

/** Deliveries a second: as many as go through, so many of all controllers, or so many of each. */
type Rate = 'saturation' | { perSecond: number } | { each: number }

/** The CPU of all controllers together, in milliseconds for each delivery. */
export type ReplicasLoad = {
  way: DeliveryLogMode
  rate: Rate
  controllers: number
  delivered: Spread
  cpu: Spread
  /** By that of one controller in the same round. */
  cpuOfOne: Spread
  /**
   * The CPU of publisher and receiver for each delivery, by that in the round of one controller. Their work is the same: what
   * it differs from 1 is how much dearer a machine that more processes share makes CPU.
   */
  sameWork: Spread
  /**
   * `cpuOfOne` by `sameWork`, round by round: what several cost more where the machine is as fast for them as for one. At
   * saturation alone, since publisher and receiver cost less for each delivery the more of them there are.
   */
  atSameSpeed?: Spread
  apiServerCpu: Spread
  writes: Spread
  p99: Spread
  /** Of the controller that holds most, MiB. */
  resident: Spread
}

const COUNTS = [1, 2, 3] as const
/**
 * What is deleted to keep the log bounded was written minutes before, at another rate: each number of controllers begins with
 * a log that is empty, and keeps all of it.
 */
const KEEP_ALL = { DAVIT_MAX_LOG_BYTES: String(8192 * 2 ** 20) }
/** Publisher and receiver are new as well, and have run their code often enough only where it runs fast. */
const FASTEST_FIRST = ['Segments', 'Objects'] as const
/** So many that each controller has its share of them. */
const ORGANIZATIONS = 10
const ENDPOINTS = 3

type Turn = { result: LoadResult; controllers: readonly Controller[] }
type Measured = { cpu: number; same: number; result: LoadResult; residentMiB: number }

/** Every other round begins with the most, since machines change their speed within minutes. */
export async function measureReplicas(plan: ReplicasPlan): Promise<ReplicasLoad[]> {
  const measured = new Map<string, Measured[]>()
  for (let round = 0; round < plan.rounds; round += 1)
    for (const count of round % 2 === 0 ? COUNTS : COUNTS.toReversed())
      await onBed(async (bed) => {
        const routes = await prepare(bed)
        await measureWith(bed, { plan, routes, count }, measured)
      })
  return summarize(plan, measured)
}

async function prepare(bed: Bed): Promise<Record<DeliveryLogMode, readonly Route[]>> {
  const first = await bed.startController()
  const of = async (way: DeliveryLogMode) =>
    await makeEndpoints(bed, {
      name: `shared-${way.toLowerCase()}`,
      organizations: ORGANIZATIONS,
      endpoints: ENDPOINTS,
      deliveryLog: way,
      path: '/ok',
    })
  const routes = { Objects: await of('Objects'), Segments: await of('Segments') }
  await first.stop()
  return routes
}

type Of = { plan: ReplicasPlan; routes: Record<DeliveryLogMode, readonly Route[]>; count: number }

async function measureWith(
  bed: Bed,
  { plan, routes, count }: Of,
  measured: Map<string, Measured[]>,
): Promise<void> {
  const controllers: Controller[] = []
  for (let number = 0; number < count; number += 1)
    controllers.push(await bed.startController({ env: { ...KEEP_ALL, DAVIT_REPLICA: `bench-${number}` } }))
  const closed = { publishers: PUBLISHERS, window: WINDOW, bytes: BODY_BYTES }
  for (const way of FASTEST_FIRST) {
    const known = { routes: routes[way], bytes: BODY_BYTES }
    await turn(bed, controllers, { ...known, ...closed, seconds: plan.warmUpSeconds * count })
    for (const rate of ratesOf(plan, way)) {
      const perSecond = totalOf(rate, count)
      const pace = perSecond === undefined ? closed : { perSecond, bytes: BODY_BYTES }
      const one = await turn(bed, controllers, { ...known, ...pace, seconds: plan.seconds })
      const key = keyOf(way, rate, count)
      const last = measuredOf(one)
      measured.set(key, [...(measured.get(key) ?? []), last])
      const { perSecond: delivered } = one.result
      report(`${key}: ${Math.round(delivered)}/s, ${last.cpu.toFixed(3)} ms CPU of controllers each`)
    }
  }
  for (const controller of controllers) await controller.stop()
}

async function turn(bed: Bed, controllers: readonly Controller[], load: LoadPlan): Promise<Turn> {
  const [first, ...others] = controllers
  if (!first) throw new Error('there is no controller')
  const pids = Object.fromEntries(others.map(({ pid }, index) => [nameOf(index + 1), pid]))
  return { result: await runLoad({ bed, controllerPid: first.pid, pids, load }), controllers }
}

function nameOf(index: number): string {
  return index === 0 ? 'controller' : `controller-${index}`
}

function measuredOf({ result, controllers }: Turn): Measured {
  const { cpuPerDelivery } = result
  const cpu = controllers.reduce((sum, _, index) => sum + (cpuPerDelivery[nameOf(index)] ?? 0), 0)
  const same = (cpuPerDelivery.publisher ?? 0) + (cpuPerDelivery.receiver ?? 0)
  const residentMiB = Math.max(...controllers.map(({ pid }) => residentBytes(pid))) / 2 ** 20
  return { cpu, same, result, residentMiB }
}

function ratesOf(plan: ReplicasPlan, way: DeliveryLogMode): Rate[] {
  return ['saturation', ...plan.perSecond.map((perSecond) => ({ perSecond })), { each: plan.each[way] }]
}

function totalOf(rate: Rate, controllers: number): number | undefined {
  if (rate === 'saturation') return undefined
  return 'perSecond' in rate ? rate.perSecond : rate.each * controllers
}

export function wordsOfRate(rate: Rate): string {
  if (rate === 'saturation') return 'at saturation'
  return 'perSecond' in rate ? `at ${rate.perSecond}/s` : `at ${rate.each}/s each`
}

function keyOf(way: DeliveryLogMode, rate: Rate, count: number): string {
  return `${way} ${wordsOfRate(rate)}, ${count} controllers`
}

function atSameSpeedAs(alone: readonly Measured[]) {
  return ({ cpu, same }: Measured, round: number) => {
    const one = alone[round]
    return one ? cpu / one.cpu / (same / one.same) : 1
  }
}

function summarize(plan: ReplicasPlan, measured: ReadonlyMap<string, Measured[]>): ReplicasLoad[] {
  return WAYS.flatMap((way) =>
    ratesOf(plan, way).flatMap((rate) =>
      COUNTS.map((controllers) => {
        const of = measured.get(keyOf(way, rate, controllers)) ?? []
        const alone = measured.get(keyOf(way, rate, 1)) ?? []
        const spread = (value: (one: Measured) => number) => spreadOf(of.map(value))
        return {
          way,
          rate,
          controllers,
          delivered: spread(({ result }) => result.perSecond),
          cpu: spread(({ cpu }) => cpu),
          cpuOfOne: spreadOf(of.map(({ cpu }, round) => cpu / (alone[round]?.cpu ?? cpu))),
          sameWork: spreadOf(of.map(({ same }, round) => same / (alone[round]?.same ?? same))),
          ...(rate === 'saturation' ? { atSameSpeed: spreadOf(of.map(atSameSpeedAs(alone))) } : {}),
          apiServerCpu: spread(({ result }) => result.cpuPerDelivery.apiServer ?? 0),
          writes: spread(({ result }) => result.writesPerDelivery),
          p99: spread(({ result }) => result.received.latency.p99),
          resident: spread(({ residentMiB }) => residentMiB),
        }
      }),
    ),
  )
}
