/** Turns of publishing by REST to servers with default settings: what `rest-publishing`, `rest-tls` and `rest-replicas` share. */
import { runLoad } from '../davit-load.ts'
import type { LoadPlan, Pace } from '../loads/publishing.ts'
import { REST_SERVER, type RestTurn, type Round, turnOf } from '../measure/rest-turns.ts'
import type { RoundsPlan } from '../measure/rounds.ts'
import { report } from '../progress.ts'
import type { MeasuredServer } from '../rest-server.ts'
import { assertNoneRefused, type ServerBed } from './server-bed.ts'
import { BODY_BYTES, WINDOW } from './usual-load.ts'

export type RestLoadPlan = RoundsPlan & {
  /** Duration of each turn. */
  seconds: number
}

export type RestCase = {
  name: string
  /** Connections. */
  clients: number
  pace: Pace
}

/** Before each turn: a request of another kind, or a connection, has run little code of the server yet. */
const WARM_UP_SECONDS = 1
/** At a fixed rate, more than ever wait for a response. */
const STEADY_CLIENTS = 64
const STEADY_PER_SECOND = 500

export const STEADY: RestCase = {
  name: `${STEADY_PER_SECOND} events/s`,
  clients: STEADY_CLIENTS,
  pace: { perSecond: STEADY_PER_SECOND },
}

/** As fast as responses come. */
export function saturationCase(clients: number): RestCase {
  return { name: `${clients} clients`, clients, pace: { publishers: clients, window: WINDOW } }
}

/** Publishes to these servers in turn. @throws Error if an event is rejected or lost */
export async function runTurn(
  on: ServerBed,
  servers: readonly MeasuredServer[],
  { of, seconds }: { of: RestCase; seconds: number },
): Promise<RestTurn> {
  await connectTo(on, servers, of)
  await publish(on, servers, { of, seconds: WARM_UP_SECONDS })
  const turn = await publish(on, servers, { of, seconds })
  const { p50, p99 } = turn.receipt
  report(
    `${of.name}: ${Math.round(turn.perSecond)}/s, receipt p50 ${p50.toFixed(1)} ms, p99 ${p99.toFixed(1)} ms`,
  )
  return turn
}

/** A turn of each case, in this order. @throws Error as `runTurn` */
export async function runTurns(
  on: ServerBed,
  servers: readonly MeasuredServer[],
  { cases, seconds }: { cases: readonly RestCase[]; seconds: number },
): Promise<Round> {
  const turns = new Map<string, RestTurn>()
  for (const of of cases) turns.set(of.name, await runTurn(on, servers, { of, seconds }))
  return turns
}

/** Has run what is hot often enough for the engine to compile it. */
export async function warmUp(
  on: ServerBed,
  servers: readonly MeasuredServer[],
  { of, seconds }: { of: RestCase; seconds: number },
): Promise<void> {
  await connectTo(on, servers, of)
  await publish(on, servers, { of, seconds })
}

async function connectTo(
  on: ServerBed,
  servers: readonly MeasuredServer[],
  { clients }: RestCase,
): Promise<void> {
  await on.clients.connect(servers, on.keyFiles, clients)
}

async function publish(
  { bed, controller, clients, routes }: ServerBed,
  servers: readonly MeasuredServer[],
  { of, seconds }: { of: RestCase; seconds: number },
): Promise<RestTurn> {
  const load: LoadPlan = { routes, seconds, bytes: BODY_BYTES, ...of.pace }
  const pids = {
    clients: clients.pid,
    ...Object.fromEntries(servers.map(({ pid }, index) => [`${REST_SERVER}-${index}`, pid])),
  }
  const result = await runLoad({ bed, controllerPid: controller.pid, load, publishers: clients, pids })
  assertNoneRefused(result)
  return turnOf(result)
}
