/** Results for tests, made by the functions that make them of measurements. */
import { publishingCases, type RestTurn, type Round, replicaLoads, tlsCases } from './measure/rest-turns.ts'
import { spreadOf } from './measure/samples.ts'
import type { RestPublishing, RestReplicas, RestTls } from './rest-load-results.ts'

const LOADS = ['32 clients', '500 events/s']

export function turn(changes: Partial<RestTurn> = {}): RestTurn {
  return {
    perSecond: 2000,
    receipt: { p50: 10, p99: 40 },
    answered: { p50: 8, p99: 30 },
    cpu: { restServer: 0.2, controller: 0.1, apiServer: 0.12, etcd: 0.04, clients: 0.05, receiver: 0.05 },
    writesPerDelivery: 0.05,
    ...changes,
  }
}

function round(changes?: Partial<RestTurn>): Round {
  return new Map(LOADS.map((name) => [name, turn(changes)]))
}

const COMMON = { versions: { node: 'v24.21.0' }, rounds: 1, seconds: 10 }

export const publishingResult: RestPublishing = {
  ...COMMON,
  raw: spreadOf([4000, 5000]),
  rawCpu: { apiServer: spreadOf([0.1]), etcd: spreadOf([0.03]) },
  cases: publishingCases([round()], [4000, 5000]),
  profiles: [
    {
      name: '32 clients',
      busyMs: 8000,
      functions: [{ name: '(garbage collector)', place: '', ms: 800, share: 0.1 }],
    },
  ],
}

export const tlsResult: RestTls = { ...COMMON, cases: tlsCases([round()], [round({ perSecond: 1600 })]) }

export const replicasResult: RestReplicas = {
  ...COMMON,
  loads: replicaLoads([[round()], [round()], [round()]]),
}
