/** What several controllers cost that share the work, against one alone in the same round. */
import { type Bed, startBed } from '../bed.ts'
import type { Controller } from '../controller.ts'
import { type LoadResult, runLoad } from '../davit-load.ts'
import type { LoadPlan, Route } from '../loads/publishing.ts'
import { limitCpu, whyNoLimits } from '../measure/cpu-limit.ts'
import { residentBytes } from '../measure/process-usage.ts'
import { type Spread, spreadOf } from '../measure/samples.ts'
import { report } from '../progress.ts'
import { makeEndpoints } from '../topology.ts'
import { BODY_BYTES, PUBLISHERS, WINDOW } from './usual-load.ts'

export type ReplicasPlan = {
  rounds: { saturation: number; limited: number; atRates: number }
  /**
   * At saturation, for each controller: each process compiles its code again, and one of three takes three times as long to have
   * run it often enough.
   */
  warmUpSeconds: number
  seconds: number
  /** Parts of a core that each of them has, so that they are what limits the rate, and not the store. */
  cores: number
  /** Low rates, all of them together. */
  perSecond: readonly number[]
  /** A load of each of them: how much of its own a controller has says what its deliveries cost more than anything else. */
  each: number
}

/**
 * Deliveries a second: as many as go through, as many as controllers do of which each has so many cores, so many of all
 * controllers, or so many of each.
 */
type Rate = 'saturation' | { cores: number } | { perSecond: number } | { each: number }

/** The CPU of all controllers together, in milliseconds for each delivery. */
export type ReplicasLoad = {
  rate: Rate
  controllers: number
  delivered: Spread
  cpu: Spread
  /** By that of one controller in the same round. */
  cpuOfOne: Spread
  /** Including that of the API server and of etcd: the complete cost of a delivery. */
  cpuOfAll: Spread
  /** Relative to one controller in the same round. */
  cpuOfAllOfOne: Spread
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
/** What is deleted to keep the log bounded was written minutes before, at another rate. */
const KEEP_ALL = { DAVIT_MAX_LOG_BYTES: String(8192 * 2 ** 20) }
/** So many that each controller has its share of them. */
const ORGANIZATIONS = 10
/** With few, one of three controllers would have half of them. */
const ENDPOINTS = 12
/** Of each controller that has a part of a core: enough to do, and done before a delivery has waited long enough for an object. */
const LIMITED_WINDOW = 150

/** Controllers that share a control plane of their own. */
type Team = {
  bed: Bed
  controllers: readonly Controller[]
  routes: readonly Route[]
}
type Measured = { cpu: number; all: number; same: number; result: LoadResult; residentMiB: number }

/**
 * A team for each number of controllers, all of them there and warm from the first turn to the last. They take turns, so that
 * turns which are compared follow each other within seconds: machines change their speed within minutes.
 */
export async function measureReplicas(wanted: ReplicasPlan): Promise<ReplicasLoad[]> {
  const plan = possible(wanted)
  const measured = new Map<string, Measured[]>()
  const beds: Bed[] = []
  try {
    const teams: Team[] = []
    for (const count of COUNTS) {
      const bed = await startBed()
      beds.push(bed)
      teams.push(await startTeam(bed, count))
    }
    for (const team of teams) await warmUp(team, plan.warmUpSeconds)
    for (const rate of ratesOf(plan))
      for (let round = 0; round < roundsOf(plan, rate); round += 1)
        for (const team of rotated(teams, round)) await measureTurn(team, { plan, rate }, measured)
  } finally {
    for (const bed of beds) await bed.stop()
  }
  return summarize(plan, measured)
}

/** Without the turns that this machine cannot have. */
function possible(plan: ReplicasPlan): ReplicasPlan {
  const why = whyNoLimits()
  if (why === undefined) return plan
  report(`no turns with a part of a core for each controller: ${why}`)
  return { ...plan, rounds: { ...plan.rounds, limited: 0 } }
}

async function startTeam(bed: Bed, count: number): Promise<Team> {
  const controllers: Controller[] = []
  for (let number = 0; number < count; number += 1)
    controllers.push(await bed.startController({ env: { ...KEEP_ALL, DAVIT_REPLICA: `bench-${number}` } }))
  const topology = { name: 'shared', organizations: ORGANIZATIONS, endpoints: ENDPOINTS, path: '/ok' }
  return { bed, controllers, routes: await makeEndpoints(bed, topology) }
}

/** Another one begins each round. */
function rotated(teams: readonly Team[], round: number): Team[] {
  const first = round % teams.length
  return [...teams.slice(first), ...teams.slice(0, first)]
}

const CLOSED = { publishers: PUBLISHERS, window: WINDOW, bytes: BODY_BYTES }

async function warmUp(team: Team, seconds: number): Promise<void> {
  await run(team, { routes: team.routes, ...CLOSED, seconds: seconds * team.controllers.length })
}

type Of = { plan: ReplicasPlan; rate: Rate }

async function measureTurn(team: Team, of: Of, measured: Map<string, Measured[]>): Promise<void> {
  const { plan, rate } = of
  const count = team.controllers.length
  const load = { routes: team.routes, ...paceOf(rate, count), seconds: plan.seconds }
  const pids = team.controllers.map(({ pid }) => pid)
  const release = typeof rate === 'object' && 'cores' in rate ? limitCpu(pids, rate.cores) : undefined
  const result = await run(team, load).finally(() => release?.())
  const last = measuredOf(team, result)
  const key = keyOf(rate, count)
  measured.set(key, [...(measured.get(key) ?? []), last])
  report(`${key}: ${Math.round(last.result.perSecond)}/s, ${last.cpu.toFixed(3)} ms CPU of controllers each`)
}

async function run({ bed, controllers }: Team, load: LoadPlan): Promise<LoadResult> {
  const [first, ...others] = controllers
  if (!first) throw new Error('there is no controller')
  const pids = Object.fromEntries(others.map(({ pid }, index) => [nameOf(index + 1), pid]))
  return await runLoad({ bed, controllerPid: first.pid, pids, load })
}

function nameOf(index: number): string {
  return index === 0 ? 'controller' : `controller-${index}`
}

function measuredOf({ controllers }: Team, result: LoadResult): Measured {
  const { cpuPerDelivery } = result
  const cpu = controllers.reduce((sum, _, index) => sum + (cpuPerDelivery[nameOf(index)] ?? 0), 0)
  const all = cpu + (cpuPerDelivery.apiServer ?? 0) + (cpuPerDelivery.etcd ?? 0)
  const same = (cpuPerDelivery.publisher ?? 0) + (cpuPerDelivery.receiver ?? 0)
  const residentMiB = Math.max(...controllers.map(({ pid }) => residentBytes(pid))) / 2 ** 20
  return { cpu, all, same, result, residentMiB }
}

function ratesOf(plan: ReplicasPlan): Rate[] {
  const perSecond = plan.perSecond.map((each) => ({ perSecond: each }))
  const limited = plan.rounds.limited > 0 ? [{ cores: plan.cores }] : []
  return ['saturation', ...limited, ...perSecond, { each: plan.each }]
}

function roundsOf({ rounds }: ReplicasPlan, rate: Rate): number {
  if (rate === 'saturation') return rounds.saturation
  return 'cores' in rate ? rounds.limited : rounds.atRates
}

function paceOf(rate: Rate, controllers: number) {
  if (rate === 'saturation') return CLOSED
  if ('cores' in rate) return { ...CLOSED, window: LIMITED_WINDOW * controllers }
  const perSecond = 'perSecond' in rate ? rate.perSecond : rate.each * controllers
  return { perSecond, bytes: BODY_BYTES }
}

export function wordsOfRate(rate: Rate): string {
  if (rate === 'saturation') return 'at saturation'
  if ('cores' in rate) return `with ${rate.cores} of a core each`
  return 'perSecond' in rate ? `at ${rate.perSecond}/s` : `at ${rate.each}/s each`
}

function keyOf(rate: Rate, count: number): string {
  return `${wordsOfRate(rate)}, ${count} controllers`
}

function atSameSpeedAs(alone: readonly Measured[]) {
  return ({ cpu, same }: Measured, round: number) => {
    const one = alone[round]
    return one ? cpu / one.cpu / (same / one.same) : 1
  }
}

function summarize(plan: ReplicasPlan, measured: ReadonlyMap<string, Measured[]>): ReplicasLoad[] {
  return ratesOf(plan).flatMap((rate) =>
    COUNTS.map((controllers) => {
      const of = measured.get(keyOf(rate, controllers)) ?? []
      const alone = measured.get(keyOf(rate, 1)) ?? []
      const spread = (value: (one: Measured) => number) => spreadOf(of.map(value))
      const byOne = (name: 'cpu' | 'all' | 'same') =>
        spreadOf(of.map((one, round) => one[name] / (alone[round]?.[name] ?? one[name])))
      return {
        rate,
        controllers,
        delivered: spread(({ result }) => result.perSecond),
        cpu: spread(({ cpu }) => cpu),
        cpuOfOne: byOne('cpu'),
        cpuOfAll: spread(({ all }) => all),
        cpuOfAllOfOne: byOne('all'),
        sameWork: byOne('same'),
        ...(rate === 'saturation' ? { atSameSpeed: spreadOf(of.map(atSameSpeedAs(alone))) } : {}),
        apiServerCpu: spread(({ result }) => result.cpuPerDelivery.apiServer ?? 0),
        writes: spread(({ result }) => result.writesPerDelivery),
        p99: spread(({ result }) => result.received.latency.p99),
        resident: spread(({ residentMiB }) => residentMiB),
      }
    }),
  )
}
