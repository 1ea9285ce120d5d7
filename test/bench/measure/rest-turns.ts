/** Turns of publishing by REST: each one's figures, and how they compare round by round. */
import type { RestPublishing, RestReplicas, RestTls, Turns } from '../rest-load-results.ts'
import { type Spread, spreadOf, spreadsOf } from './samples.ts'

type Quantiles = { p50: number; p99: number }

/** Of one load. Milliseconds; CPU for each event, by process. */
export type RestTurn = {
  perSecond: number
  receipt: Quantiles
  answered: Quantiles
  cpu: Record<string, number>
  writesPerDelivery: number
}

/** What is used of a `LoadResult`. An event makes one delivery. */
type Loaded = {
  perSecond: number
  published: { accepted: Quantiles }
  received: { latency: Quantiles }
  cpuPerDelivery: Record<string, number>
  writesPerDelivery: number
}

/** The names of REST servers begin with it. */
export const REST_SERVER = 'restServer'
/** Processes that the cost of an event consists of; the others are the bench's own. */
export const OF_DAVIT = [REST_SERVER, 'controller', 'apiServer', 'etcd'] as const

/** Counts all REST servers as one. */
export function turnOf({
  perSecond,
  published,
  received,
  cpuPerDelivery,
  writesPerDelivery,
}: Loaded): RestTurn {
  const cpu: Record<string, number> = {}
  for (const [name, ms] of Object.entries(cpuPerDelivery)) {
    const key = name.startsWith(REST_SERVER) ? REST_SERVER : name
    cpu[key] = (cpu[key] ?? 0) + ms
  }
  return {
    perSecond,
    receipt: quantilesOf(received.latency),
    answered: quantilesOf(published.accepted),
    cpu,
    writesPerDelivery,
  }
}

function quantilesOf({ p50, p99 }: Quantiles): Quantiles {
  return { p50, p99 }
}

export function spreadsOfTurns(turns: readonly RestTurn[]): Turns {
  const spread = (of: (turn: RestTurn) => number) => spreadOf(turns.map(of))
  return {
    perSecond: spread(({ perSecond }) => perSecond),
    receipt: { p50: spread(({ receipt }) => receipt.p50), p99: spread(({ receipt }) => receipt.p99) },
    answered: { p50: spread(({ answered }) => answered.p50), p99: spread(({ answered }) => answered.p99) },
    cpu: spreadsOf(turns.map(({ cpu }) => cpu)),
    allCpu: spread(allCpu),
    writesPerDelivery: spread(({ writesPerDelivery }) => writesPerDelivery),
  }
}

/** Turns by the name of their load. */
export type Round = ReadonlyMap<string, RestTurn>

/** @param raw rates of the raw loop: before the first round, and after each round */
export function publishingCases(rounds: readonly Round[], raw: readonly number[]): RestPublishing['cases'] {
  return namesIn(rounds).map((name) => {
    const turns = turnsOf(rounds, name)
    const ofRaw = turns.map(({ perSecond }, round) => perSecond / meanAround(raw, round))
    return { name, ...spreadsOfTurns(turns), ofRaw: spreadOf(ofRaw) }
  })
}

function meanAround(raw: readonly number[], round: number): number {
  return ((raw[round] ?? 0) + (raw[round + 1] ?? 0)) / 2
}

/** @param off,on rounds without and with TLS, in the same order */
export function tlsCases(off: readonly Round[], on: readonly Round[]): RestTls['cases'] {
  return namesIn(off).map((name) => {
    const [without, with_] = [turnsOf(off, name), turnsOf(on, name)]
    const ratio = (of: (turn: RestTurn) => number) => ratiosOf(with_, without, of)
    return {
      name,
      off: spreadsOfTurns(without),
      on: spreadsOfTurns(with_),
      ratio: {
        perSecond: ratio(({ perSecond }) => perSecond),
        receipt: { p50: ratio(({ receipt }) => receipt.p50), p99: ratio(({ receipt }) => receipt.p99) },
        restServerCpu: ratio(restServerCpu),
        allCpu: ratio(allCpu),
      },
    }
  })
}

/** @param byCount rounds with one REST server, with two, and so on, in the same order */
export function replicaLoads(byCount: readonly (readonly Round[])[]): RestReplicas['loads'] {
  return namesIn(byCount[0] ?? []).map((name) => {
    const all = byCount.map((rounds) => turnsOf(rounds, name))
    const one = all[0] ?? []
    const counts = all.map((turns, index) => {
      const fewer = all[index - 1] ?? turns
      return {
        servers: index + 1,
        turns: spreadsOfTurns(turns),
        restServerCpu: ratiosOf(turns, one, restServerCpu),
        allCpu: ratiosOf(turns, one, allCpu),
        addedRestServerCpu: differencesOf(turns, fewer, restServerCpu),
        addedAllCpu: differencesOf(turns, fewer, allCpu),
      }
    })
    return { name, counts }
  })
}

function restServerCpu({ cpu }: RestTurn): number {
  return cpu[REST_SERVER] ?? 0
}

function allCpu({ cpu }: RestTurn): number {
  return OF_DAVIT.reduce((sum, name) => sum + (cpu[name] ?? 0), 0)
}

function namesIn(rounds: readonly Round[]): string[] {
  return [...(rounds[0]?.keys() ?? [])]
}

/** @throws Error if a round lacks this load, since figures of different rounds would then be compared */
function turnsOf(rounds: readonly Round[], name: string): RestTurn[] {
  return rounds.map((round) => {
    const turn = round.get(name)
    if (!turn) throw new Error(`a round lacks ${name}`)
    return turn
  })
}

function ratiosOf(
  turns: readonly RestTurn[],
  to: readonly RestTurn[],
  of: (turn: RestTurn) => number,
): Spread {
  return spreadOf(pairsOf(turns, to).map(([one, other]) => of(one) / of(other)))
}

function differencesOf(
  turns: readonly RestTurn[],
  from: readonly RestTurn[],
  of: (turn: RestTurn) => number,
): Spread {
  return spreadOf(pairsOf(turns, from).map(([one, other]) => of(one) - of(other)))
}

/** Of the same round. */
function pairsOf(turns: readonly RestTurn[], others: readonly RestTurn[]): [RestTurn, RestTurn][] {
  if (turns.length !== others.length) throw new Error(`${turns.length} and ${others.length} rounds differ`)
  return turns.flatMap((turn, round) => {
    const other = others[round]
    return other ? [[turn, other] as [RestTurn, RestTurn]] : []
  })
}
