/** What a second and a third REST server cost at the same load of all together. */
import { describeVersions } from '../machine.ts'
import { type RestTurn, type Round, replicaLoads } from '../measure/rest-turns.ts'
import { rotated, runRounds, startStopwatch } from '../measure/rounds.ts'
import { report } from '../progress.ts'
import type { RestReplicas } from '../rest-load-results.ts'
import { type MeasuredServer, startServerBed } from '../rest-server.ts'
import { type RestLoadPlan, runTurn, STEADY, saturationCase, warmUp } from './rest-turn.ts'
import { onServerBed, type ServerBed } from './server-bed.ts'

export type RestReplicasPlan = RestLoadPlan & {
  /** For each REST server: each process compiles its code again, and one of three gets a third of the requests. */
  warmUpSeconds: number
}

const COUNTS = [1, 2, 3] as const
/** Divides evenly among the REST servers. */
const SATURATION = saturationCase(96)
const LOADS = [STEADY, SATURATION]

/** REST servers that share a control plane of their own, and a controller. */
type Team = { on: ServerBed; servers: readonly MeasuredServer[]; rounds: Round[] }

/**
 * A team for each number of REST servers, all of them there and warm from the first turn to the last, so that turns which are
 * compared follow each other within seconds. A REST server that runs follows the log, so teams cannot share a control plane.
 */
export async function measureRestReplicas(plan: RestReplicasPlan): Promise<RestReplicas> {
  const elapsed = startStopwatch()
  return await withTeams(COUNTS, [], async (teams) => {
    for (const { on, servers } of teams)
      await warmUp(on, servers, { of: SATURATION, seconds: plan.warmUpSeconds * servers.length })
    const rounds = await runRounds(plan, elapsed, async (round) => {
      const turns = teams.map(() => new Map<string, RestTurn>())
      for (const of of rotated(LOADS, round)) {
        for (const [index, { on, servers }] of rotated([...teams.entries()], round)) {
          report(`rest-replicas: round ${round + 1} of ${plan.rounds}, ${servers.length} REST servers`)
          turns[index]?.set(of.name, await runTurn(on, servers, { of, seconds: plan.seconds }))
        }
      }
      for (const [index, team] of teams.entries()) team.rounds.push(turns[index] ?? new Map())
    })
    const [first] = teams
    if (!first) throw new Error('there is no REST server')
    return {
      versions: await describeVersions(first.on.bed.controlPlane),
      rounds,
      seconds: plan.seconds,
      loads: replicaLoads(teams.map((team) => team.rounds)),
    }
  })
}

/** Runs `work` with a team for each number. */
async function withTeams<T>(
  counts: readonly number[],
  teams: readonly Team[],
  work: (teams: readonly Team[]) => Promise<T>,
): Promise<T> {
  const [count, ...others] = counts
  if (count === undefined) return await work(teams)
  return await onServerBed(async (on) => {
    const servers: MeasuredServer[] = []
    try {
      for (let replica = 0; replica < count; replica += 1)
        servers.push(await startServerBed(on.bed, { settings: 'default', replica }))
      report(`rest-replicas: ${count} REST servers are ready`)
      return await withTeams(others, [...teams, { on, servers, rounds: [] }], work)
    } finally {
      await Promise.all(servers.map((server) => server.stop()))
    }
  })
}
