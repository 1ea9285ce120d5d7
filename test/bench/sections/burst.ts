/** Many clients that publish by REST as fast as they can, to an endpoint that takes the events as they come. */
import type { LoadResult } from '../davit-load.ts'
import { type Spread, spreadOf, spreadsOf } from '../measure/samples.ts'
import { report } from '../progress.ts'
import { startServerBed } from '../rest-server.ts'
import { assertNoneRefused, onServerBed, runByRest } from './server-bed.ts'
import { BODY_BYTES, WINDOW } from './usual-load.ts'

export type Burst = {
  events: number
  clients: number
  /** From the first publish until the last was received, and until the last outcome was durable. */
  receivedSeconds: Spread
  settledSeconds: Spread
  acceptedPerSecond: Spread
  /** Milliseconds from a request to its answer. */
  answeredP99: Spread
  writesPerDelivery: Spread
  /** CPU milliseconds for each delivery, by process; an event makes one. */
  cpuPerDelivery: Record<string, Spread>
}

/** As many deliveries as one organization may have pending by default. */
const EVENTS = 20_000
const CLIENTS = 128
const WARM_UP_SECONDS = 3
/** Ends a burst that hardly progresses, with an error. */
const LIMIT_SECONDS = 180

export async function measureBurst(rounds: number): Promise<Burst> {
  return await onServerBed(async (on) => {
    const server = await startServerBed(on.bed)
    await on.clients.connect(server, on.keyFiles, CLIENTS)
    const load = { routes: on.routes, publishers: CLIENTS, bytes: BODY_BYTES }
    await runByRest(on, server, { ...load, window: WINDOW, seconds: WARM_UP_SECONDS })
    const bursts: LoadResult[] = []
    while (bursts.length < rounds) {
      const burst = await runByRest(on, server, { ...load, events: EVENTS, seconds: LIMIT_SECONDS })
      assertNoneRefused(burst)
      const { events } = burst.published
      if (events < EVENTS) throw new Error(`only ${events} events were published in ${LIMIT_SECONDS} s`)
      report(`${EVENTS} events were received after ${receivedSeconds(burst).toFixed(1)} s`)
      bursts.push(burst)
    }
    await server.stop()
    return summarize(bursts)
  })
}

function receivedSeconds({ published, received }: LoadResult): number {
  return (received.lastAt - published.startedAt) / 1e6
}

function acceptedPerSecond({ published }: LoadResult): number {
  return published.events / ((published.endedAt - published.startedAt) / 1e6)
}

function summarize(bursts: readonly LoadResult[]): Burst {
  const spread = (of: (burst: LoadResult) => number) => spreadOf(bursts.map(of))
  return {
    events: EVENTS,
    clients: CLIENTS,
    receivedSeconds: spread(receivedSeconds),
    settledSeconds: spread(({ published, perSecond }) => published.deliveries / perSecond),
    acceptedPerSecond: spread(acceptedPerSecond),
    answeredP99: spread(({ published }) => published.accepted.p99),
    writesPerDelivery: spread(({ writesPerDelivery }) => writesPerDelivery),
    cpuPerDelivery: spreadsOf(bursts.map(({ cpuPerDelivery }) => cpuPerDelivery)),
  }
}
