/**
 * Publishes events as the facade does: matches them against the endpoints, appends them to the delivery log, and
 * takes them for accepted when the append is durable.
 */
import {
  connectKubernetes,
  type KubernetesClient,
} from '../../../src/adapters/kubernetes/kubernetes-client.ts'
import { createClock } from '../../../src/adapters/system/clock.ts'
import { createRandom } from '../../../src/adapters/system/random.ts'
import type { AcceptedEvent } from '../../../src/api/delivery-segment.ts'
import { webhookEndpoint, webhookEndpoints } from '../../../src/api/webhook-endpoint.ts'
import { createEventLog, type OpenEventLog } from '../../../src/controllers/delivery-log/event-log.ts'
import { acceptEvent } from '../../../src/domain/accept.ts'
import { decideState } from '../../../src/domain/endpoint-state.ts'
import { matchEndpoints, type Subscriber, subscriberOf } from '../../../src/domain/fan-out.ts'
import { NAME_ENTROPY_BYTES, sortableName } from '../../../src/domain/message-id.ts'
import { Backlog } from '../loads/backlog.ts'
import { ENVELOPE_BYTES, stampedData } from '../loads/event.ts'
import { type Act, closedLoop, openLoop } from '../loads/pace.ts'
import { microseconds } from '../measure/instant.ts'
import { type Quantiles, quantilesOf, Samples } from '../measure/samples.ts'
import { serveCalls } from './remote-calls.ts'

/** Where an event goes: the organization, and the type that its endpoints subscribe to. */
export type Route = { namespace: string; type: string }

/**
 * As fast as answers come, with at most `window` deliveries accepted and not settled; or at a rate, come what may.
 */
export type Pace = { publishers: number; window: number } | { perSecond: number }

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
  /** Reads the endpoints of these organizations. @returns how many there are */
  list: (namespaces: readonly string[]) => Promise<number>
  publish: (load: Load) => Promise<Published>
  /** Deliveries of the running load that have settled so far. */
  settled: (deliveries: number) => void
}

const clock = createClock()
const random = createRandom()
const subscribers = new Map<string, Subscriber[]>()
let api: KubernetesClient | undefined
let log: OpenEventLog | undefined
let backlog = new Backlog(0)

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
  const one: Act = async (n, at) => {
    const event = makeEvent(load, n, at)
    const called = microseconds()
    try {
      await log?.append([event])
      published.events += 1
      published.deliveries += event.targets.length
      latency.add((microseconds() - called) / 1000)
    } catch (error) {
      published.refused += 1
      if (published.refused === 1) process.stderr.write(`an event was refused: ${String(error)}\n`)
    }
  }
  const startedAt = microseconds()
  if ('publishers' in load) {
    const mine = new Backlog(load.window)
    backlog = mine
    await closedLoop({ ...load, room: () => mine.room(() => published.deliveries) }, one)
  } else {
    await openLoop(load, one)
  }
  return { ...published, startedAt, endedAt: microseconds(), accepted: quantilesOf(latency.values()) }
}

function makeEvent(load: Load, n: number, at: number): AcceptedEvent {
  const route = load.routes[n % load.routes.length]
  if (!route) throw new Error('there is nowhere to publish to')
  const event = {
    name: sortableName(clock.now(), random.bytes(NAME_ENTROPY_BYTES)),
    ...route,
    dataText: stampedData({ run: load.run, n, at }, load.bytes - ENVELOPE_BYTES),
    acceptedAt: clock.now(),
  }
  const matched = matchEndpoints(route.type, subscribers.get(route.namespace) ?? [])
  return acceptEvent(
    event,
    matched.map(({ name, uid }) => ({ name, uid })),
  )
}

serveCalls({
  connect: async ({ kubeconfigPath, namespace }) => {
    api = await connectKubernetes({ kubeconfigPath, clock, random })
    log = createEventLog({ resources: api, namespace, writer: 'bench', clock, random })
  },
  list,
  publish,
  settled: (deliveries) => backlog.settled(deliveries),
} satisfies PublisherCalls)
