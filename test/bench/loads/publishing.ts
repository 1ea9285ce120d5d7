/** A load of events, however they get into the log. */
import { microseconds } from '../measure/instant.ts'
import { type Quantiles, quantilesOf, Samples } from '../measure/samples.ts'
import { Backlog } from './backlog.ts'
import { ENVELOPE_BYTES, stampedData } from './event.ts'
import { type Act, closedLoop, openLoop } from './pace.ts'

/** Where an event goes: the organization, and the type that its endpoints subscribe to. */
export type Route = { namespace: string; type: string }

/**
 * As fast as answers come, with at most `window` deliveries accepted and not settled, or so many events and no such limit;
 * or at a rate, come what may.
 */
export type Pace =
  | {
      publishers: number
      window: number
      /** Events in each call; absent: one. */
      batch?: number
    }
  | { publishers: number; events: number }
  | { perSecond: number }

export type LoadPlan = {
  /** Taken in turn. */
  routes: readonly Route[]
  seconds: number
  /** About the size of a body. */
  bytes: number
  /** Whether bodies have a character beyond Latin-1. */
  wide?: boolean
} & Pace

export type Load = LoadPlan & { run: number }

/** Times in microseconds of `instant.ts`, latencies in milliseconds. */
export type Published = {
  events: number
  deliveries: number
  refused: number
  startedAt: number
  endedAt: number
  /** From the call to its answer. */
  accepted: Quantiles
}

/** What a process offers that publishes. */
export type PublishingCalls = {
  publish: (load: Load) => Promise<Published>
  /** Deliveries of the running load that have settled so far. */
  settled: (deliveries: number) => void
}

/** Puts events into the log with one call, all or none. @returns how many deliveries they make */
export type Enter = (route: Route, dataTexts: readonly string[]) => Promise<number>

export function createPublishing(enter: Enter): PublishingCalls {
  let backlog = new Backlog(0)
  return {
    settled: (deliveries) => backlog.settled(deliveries),
    async publish(load) {
      const latency = new Samples()
      const published = { events: 0, deliveries: 0, refused: 0 }
      const size = sizeOf(load)
      const one: Act = async (n, at) => {
        const dataTexts = Array.from({ length: size }, (_, index) =>
          stampedData({ run: load.run, n: n * size + index, at }, load.bytes - ENVELOPE_BYTES, load.wide),
        )
        const called = microseconds()
        try {
          const deliveries = await enter(routeOf(load, n), dataTexts)
          published.deliveries += deliveries
          published.events += size
          latency.add((microseconds() - called) / 1000)
        } catch (error) {
          published.refused += size
          if (published.refused === size) process.stderr.write(`an event was refused: ${String(error)}\n`)
        }
      }
      const startedAt = microseconds()
      if ('perSecond' in load) await openLoop(load, one)
      else if ('events' in load) await closedLoop(load, one)
      else {
        const mine = new Backlog(load.window)
        backlog = mine
        await closedLoop({ ...load, room: () => mine.room(() => published.deliveries) }, one)
      }
      return { ...published, startedAt, endedAt: microseconds(), accepted: quantilesOf(latency.values()) }
    },
  }
}

function sizeOf(load: Load): number {
  return 'window' in load ? (load.batch ?? 1) : 1
}

function routeOf({ routes }: Load, n: number): Route {
  const route = routes[n % routes.length]
  if (!route) throw new Error('there is nowhere to publish to')
  return route
}
