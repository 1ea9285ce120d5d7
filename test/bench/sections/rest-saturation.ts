/** Publishing by REST as fast as it goes, against the publishers without HTTP just before and after. */
import type { LoadResult } from '../davit-load.ts'
import { residentBytes } from '../measure/process-usage.ts'
import { type Spread, spreadOf, spreadsOf } from '../measure/samples.ts'
import { report } from '../progress.ts'
import { type MeasuredServer, startServerBed } from '../rest-server.ts'
import { assertNoneRefused, runByRest, type ServerBed } from './server-bed.ts'
import { BODY_BYTES, PUBLISHERS, runClosed, WINDOW } from './usual-load.ts'

export type ServerSaturation = {
  /** Deliveries per second over REST, and of publishers that append without HTTP while no REST server runs. */
  perSecond: Spread
  direct: Spread
  /** Of each round: the rate by REST by the mean of the direct ones before and after. */
  ofDirect: Spread
  /** The direct rate of one turn while a REST server follows the log. */
  followed: number
  writesPerDelivery: Spread
  directWrites: Spread
  /** CPU milliseconds for each delivery, by process; an event makes one. */
  cpu: Record<string, Spread>
  directCpu: Record<string, Spread>
  /** Milliseconds from a request to its answer: medians of the rounds. */
  answered: { p50: number; p99: number }
  /** Memory of the REST server in MiB at the end of a round. */
  restServerMiB: Spread
}

type Turn = LoadResult & { restServerMiB: number }
type Turns = { direct: LoadResult[]; rest: Turn[]; followed: number }

/** Long enough for the engine to compile what is hot. */
const WARM_UP_SECONDS = 3

/** A REST server runs only in its own turns, so that it costs the direct ones nothing; the controller runs throughout. */
export async function measureServerSaturation(
  on: ServerBed,
  { rounds, seconds }: { rounds: number; seconds: number },
): Promise<ServerSaturation> {
  const turns: Turns = { direct: [await directTurn(on, seconds)], rest: [], followed: 0 }
  for (let round = 0; round < rounds; round += 1) {
    const server = await startServerBed(on.bed)
    report(`the REST server has read the log after ${server.readyAfter.toFixed(1)} s`)
    turns.rest.push(await restTurn(on, server, seconds))
    if (round === 0) turns.followed = (await directTurn(on, seconds)).perSecond
    await server.stop()
    turns.direct.push(await directTurn(on, seconds))
  }
  return summarize(turns)
}

async function directTurn({ bed, controller, routes }: ServerBed, seconds: number): Promise<LoadResult> {
  const result = await runClosed(bed, controller, { routes, seconds })
  report(`without HTTP: ${Math.round(result.perSecond)}/s`)
  return result
}

async function restTurn(on: ServerBed, server: MeasuredServer, seconds: number): Promise<Turn> {
  await on.clients.connect(server, on.keyFiles, PUBLISHERS)
  const load = { routes: on.routes, publishers: PUBLISHERS, window: WINDOW, bytes: BODY_BYTES }
  await runByRest(on, server, { ...load, seconds: WARM_UP_SECONDS })
  const result = await runByRest(on, server, { ...load, seconds })
  assertNoneRefused(result)
  report(`by REST: ${Math.round(result.perSecond)}/s`)
  return { ...result, restServerMiB: residentBytes(server.pid) / 2 ** 20 }
}

function summarize({ direct, rest, followed }: Turns): ServerSaturation {
  const around = (round: number) =>
    ((direct[round]?.perSecond ?? 0) + (direct[round + 1]?.perSecond ?? 0)) / 2
  const median = (of: (turn: Turn) => number) => spreadOf(rest.map(of)).median
  return {
    perSecond: spreadOf(rest.map(({ perSecond }) => perSecond)),
    direct: spreadOf(direct.map(({ perSecond }) => perSecond)),
    ofDirect: spreadOf(rest.map(({ perSecond }, round) => perSecond / around(round))),
    followed,
    writesPerDelivery: spreadOf(rest.map(({ writesPerDelivery }) => writesPerDelivery)),
    directWrites: spreadOf(direct.map(({ writesPerDelivery }) => writesPerDelivery)),
    cpu: spreadsOf(rest.map(({ cpuPerDelivery }) => cpuPerDelivery)),
    directCpu: spreadsOf(direct.map(({ cpuPerDelivery }) => cpuPerDelivery)),
    answered: {
      p50: median(({ published }) => published.accepted.p50),
      p99: median(({ published }) => published.accepted.p99),
    },
    restServerMiB: spreadOf(rest.map(({ restServerMiB }) => restServerMiB)),
  }
}
