/** One organization with 5,000 endpoints: their cost, and their effect on a few endpoints of another one. */
import { setTimeout as sleep } from 'node:timers/promises'
import { webhookEndpoints } from '../../../src/apis/webhook-endpoint.ts'
import { type Bed, onBed } from '../../bench/bed.ts'
import type { Controller } from '../../bench/controller.ts'
import { nextRun } from '../../bench/davit-load.ts'
import { range } from '../../bench/figures.ts'
import type { Route } from '../../bench/loads/publishing.ts'
import { readRequestCounts, requestsBetween } from '../../bench/measure/api-requests.ts'
import { ratioOf, spreadIn } from '../../bench/measure/in-turn.ts'
import type { Quantiles } from '../../bench/measure/samples.ts'
import { report } from '../../bench/progress.ts'
import { makeEndpoints } from '../../bench/topology.ts'
import { type Figures, rounded } from '../figures.ts'
import { makeSubscribers } from './subscribers.ts'

export type LargePlan = { endpoints: number; rounds: number; seconds: number; perSecond: number }

export const LARGE: LargePlan = { endpoints: 5000, rounds: 5, seconds: 20, perSecond: 50 }

type Rate = Omit<LargePlan, 'endpoints'>

const BODY_BYTES = 180
const LAST_RECEIPT_MS = 180_000
const DRAIN = { DAVIT_SHUTDOWN_TIMEOUT: '1s' }

export async function measureLargeOrganization({ endpoints, ...rate }: LargePlan): Promise<Figures> {
  return await onBed(async (bed) => {
    const first = await bed.startController({ env: DRAIN })
    const few = await makeEndpoints(bed, {
      name: 'few',
      organizations: 1,
      endpoints: 5,
      path: '/ok/few',
    })
    const without = await roundsOf(bed, few, rate)
    report(`without them: p99 of another organization ${wordsOf(without)} ms`)
    await first.stop()
    const small = await look(bed)
    const making = await bed.startController({ env: DRAIN })
    const began = performance.now()
    const all = await makeSubscribers(bed, { namespace: 'large', type: 'large.all', count: endpoints })
    const madeIn = (performance.now() - began) / 1000
    report(`${endpoints} endpoints have their keys, after ${madeIn.toFixed(0)} s`)
    await making.stop()
    const large = await look(bed)
    report(`a start with them takes ${large.readySeconds.toFixed(1)} s`)
    const controller = await bed.startController({ env: DRAIN })
    await bed.publisher.call('list', ['few-0', 'large'])
    const beside = await roundsOf(bed, few, rate)
    report(`beside them: p99 of another organization ${wordsOf(beside)} ms`)
    const fanOut = await toAll(bed, all, endpoints)
    report(`one event has come to all of them, after ${fanOut.seconds.toFixed(1)} s`)
    const { items } = await bed.api.list(webhookEndpoints, { namespace: 'large', limit: 1 })
    await controller.stop()
    return {
      endpoints,
      'made in, seconds': rounded(madeIn),
      'start with them, seconds': rounded(large.readySeconds),
      'start without them, seconds': rounded(small.readySeconds),
      'heap for each, KB': rounded((large.heap - small.heap) / endpoints / 1024),
      'lists at the start': large.lists,
      'lists at the start without them': small.lists,
      'one event to all of them: received': fanOut.received,
      'received twice': fanOut.requests - fanOut.received,
      'seconds to the last': rounded(fanOut.seconds),
      'p99 of another organization without them, ms': range(spreadIn(without, 'p99'), 1),
      'p99 of another organization beside them, ms': range(spreadIn(beside, 'p99'), 1),
      'p99 of another organization beside them over that without': rounded(
        ratioOf({ without, beside }, 'p99'),
      ),
      'p50 of another organization beside them over that without': rounded(
        ratioOf({ without, beside }, 'p50'),
      ),
      'endpoints that are there at the end': items.length > 0 ? 'yes' : 'no',
    }
  })
}

async function look(bed: Bed): Promise<{ readySeconds: number; heap: number; lists: number }> {
  const before = await readRequestCounts(bed.controlPlane.access)
  const controller: Controller = await bed.startController({ env: DRAIN })
  const after = await readRequestCounts(bed.controlPlane.access)
  const requests = requestsBetween(before, after)
  const lists = [...requests].filter(([key]) => /^LIST (webhook|delivery|outcome|eventtypes)/.test(key))
  const heap = await controller.call('heap', null)
  await controller.stop()
  return {
    readySeconds: controller.readyAfter,
    heap,
    lists: lists.reduce((sum, [, count]) => sum + count, 0),
  }
}

/** Discards the first round: a fresh process is slower. */
async function roundsOf(bed: Bed, routes: readonly Route[], rate: Rate): Promise<Quantiles[]> {
  await receiptsOf(bed, routes, rate)
  const found: Quantiles[] = []
  while (found.length < rate.rounds) found.push(await receiptsOf(bed, routes, rate))
  return found
}

function wordsOf(found: readonly Quantiles[]): string {
  return found.map(({ p99 }) => p99.toFixed(1)).join(', ')
}

async function receiptsOf(
  bed: Bed,
  routes: readonly Route[],
  { seconds, perSecond }: Rate,
): Promise<Quantiles> {
  const run = nextRun()
  await bed.receiver.call('begin', run)
  const { events: wanted } = await bed.publisher.call('publish', {
    run,
    routes,
    seconds,
    perSecond,
    bytes: BODY_BYTES,
  })
  const { latency } = await received(bed, '/ok/few', wanted)
  return latency
}

/** One event that all of them subscribe to. Requests are counted by endpoint: each has its own path. */
async function toAll(bed: Bed, route: Route, endpoints: number) {
  const run = nextRun()
  await bed.receiver.call('begin', run)
  const began = performance.now()
  await bed.publisher.call('publish', { run, routes: [route], seconds: 1, perSecond: 1, bytes: BODY_BYTES })
  const { events, requests } = await received(bed, '/ok/large', endpoints)
  return { received: events, requests, seconds: (performance.now() - began) / 1000 }
}

/** @throws Error if not all have arrived */
async function received(bed: Bed, path: string, wanted: number) {
  const limit = performance.now() + LAST_RECEIPT_MS
  for (;;) {
    const got = await bed.receiver.call('collect', path)
    if (got.events >= wanted) return got
    if (performance.now() > limit) throw new Error(`${wanted} were accepted, ${got.events} received`)
    await sleep(200)
  }
}
