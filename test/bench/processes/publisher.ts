/**
 * Publishes events as the facade does: matches them against the endpoints, appends them to the delivery log, and
 * takes them for accepted when the append is durable.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { connectKubernetes } from '../../../src/adapters/kubernetes/kubernetes-client.ts'
import { createClock } from '../../../src/adapters/system/clock.ts'
import { createRandom } from '../../../src/adapters/system/random.ts'
import { webhookEndpoint, webhookEndpoints } from '../../../src/api/webhook-endpoint.ts'
import { createEventLog, type OpenEventLog } from '../../../src/controllers/delivery-log/event-log.ts'
import { acceptEvent } from '../../../src/domain/accept.ts'
import { decideState } from '../../../src/domain/endpoint-state.ts'
import { matchEndpoints, type Subscriber, subscriberOf } from '../../../src/domain/fan-out.ts'
import { NAME_ENTROPY_BYTES, sortableName } from '../../../src/domain/message-id.ts'
import { stampedData } from '../loads/event.ts'
import { closedLoop, openLoop } from '../loads/pace.ts'
import { microseconds } from '../measure/instant.ts'
import { type Quantiles, quantilesOf, Samples } from '../measure/samples.ts'
import { serveCalls } from './remote-calls.ts'

/** Where an event goes: the organization, and the type that its endpoints subscribe to. */
export type Route = { namespace: string; type: string }

/** As fast as answers come, or at a rate. */
export type Pace = { publishers: number } | { perSecond: number }

export type LoadPlan = {
  /** Taken in turn. */
  routes: readonly Route[]
  seconds: number
  /** About the size of a body. */
  bytes: number
} & Pace

export type Load = LoadPlan & { run: number }

/** Times in microseconds of `instant.ts`, latencies in milliseconds. */
export type Published = {
  events: number
  deliveries: number
  refused: number
  startedAt: number
  endedAt: number
  /** From the call of append to its answer. */
  accepted: Quantiles
}

export type PublisherCalls = {
  connect: (argument: { kubeconfigPath: string; namespace: string }) => Promise<void>
  /** Reads the endpoints of these organizations. */
  list: (namespaces: readonly string[]) => Promise<number>
  publish: (load: Load) => Promise<Published>
}

/** `{"type":"...","timestamp":"...","data":}` around the data. */
const ENVELOPE_BYTES = 80

const clock = createClock()
const random = createRandom()
const subscribers = new Map<string, Subscriber[]>()
let api: Awaited<ReturnType<typeof connectKubernetes>> | undefined
let log: OpenEventLog | undefined

async function list(namespaces: readonly string[]): Promise<number> {
  let found = 0
  for (const namespace of namespaces) {
    const page = await api?.list(webhookEndpoints, { namespace })
    const endpoints = (page?.items ?? []).map((raw) => webhookEndpoint.parse(raw))
    const views = endpoints.map((one) => subscriberOf(one, decideState(one).state === 'enabled'))
    subscribers.set(namespace, views)
    found += views.length
  }
  return found
}

async function publish(load: Load): Promise<Published> {
  const latency = new Samples()
  const published = { events: 0, deliveries: 0, refused: 0 }
  const one = async (n: number, at: number) => {
    const route = load.routes[n % load.routes.length]
    if (!log || !route) throw new Error('not connected, or no routes')
    const event = {
      name: sortableName(clock.now(), random.bytes(NAME_ENTROPY_BYTES)),
      ...route,
      dataText: stampedData({ run: load.run, n, at }, load.bytes - ENVELOPE_BYTES),
      acceptedAt: clock.now(),
    }
    const targets = matchEndpoints(route.type, subscribers.get(route.namespace) ?? [])
    const called = microseconds()
    try {
      await log.append([
        acceptEvent(
          event,
          targets.map(({ name, uid }) => ({ name, uid })),
        ),
      ])
      published.events += 1
      published.deliveries += targets.length
      latency.add((microseconds() - called) / 1000)
    } catch (error) {
      published.refused += 1
      if (published.refused === 1) process.stderr.write(`an event was refused: ${String(error)}\n`)
      await sleep(10)
    }
  }
  const startedAt = microseconds()
  if ('publishers' in load) await closedLoop(load, one)
  else await openLoop(load, one)
  return { ...published, startedAt, endedAt: microseconds(), accepted: quantilesOf(latency.values()) }
}

serveCalls({
  connect: async ({ kubeconfigPath, namespace }) => {
    api = await connectKubernetes({ kubeconfigPath, clock, random })
    log = createEventLog({ resources: api, namespace, writer: 'bench', clock, random })
  },
  list,
  publish,
} satisfies PublisherCalls)
