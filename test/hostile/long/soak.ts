/**
 * Good endpoints next to one of each hostile kind, and good clients of a REST server next to one of each hostile kind, for any
 * duration: the memory of the controller and of the REST server must not grow.
 */
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { type Bed, onBed } from '../../bench/bed.ts'
import type { Controller } from '../../bench/controller.ts'
import { nextRun } from '../../bench/davit-load.ts'
import type { Route } from '../../bench/loads/publishing.ts'
import { spawnProcess } from '../../bench/processes/remote-calls.ts'
import { report } from '../../bench/progress.ts'
import { untilKeysWork } from '../../bench/rest-clients.ts'
import { installServer, type MeasuredServer, makeKeys, startServerBed } from '../../bench/rest-server.ts'
import { type EndpointRoute, makeEndpoints } from '../../bench/topology.ts'
import { type Figures, rounded } from '../figures.ts'
import { makeEndpointFor } from './endpoint.ts'
import { HostileClients, type Met } from './hostile-clients.ts'
import { growthOf, type MemorySample, sampleMemory, wordsOf } from './memory.ts'
import type { HostileCalls } from './receivers-process.ts'

const RECEIVERS = fileURLToPath(new URL('./receivers-process.ts', import.meta.url))

const PER_SECOND = 10
/**
 * Each hostile endpoint gets one event in this many seconds. A hanging one has one attempt of 20 seconds at a time, eight for
 * each event.
 */
const HOSTILE_EVERY_SECONDS = 240
const BODY_BYTES = 180
const SAMPLE_EVERY_MS = 30_000
const SETTINGS = {
  // Eight attempts take minutes instead of nine hours, so that as many end as begin.
  DAVIT_WAIT_SCALE: '0.001',
  DAVIT_RETENTION_SUCCEEDED: '1m',
  DAVIT_RETENTION_FAILED: '1m',
  DAVIT_MAX_LOG_BYTES: String(32 * 2 ** 20),
  DAVIT_SHUTDOWN_TIMEOUT: '1s',
}
const LAST_RECEIPT_MS = 120_000

export async function soak(minutes: number): Promise<Figures> {
  const hostile = spawnProcess<HostileCalls>(RECEIVERS)
  try {
    const { targets, ca } = await hostile.call('listen', null)
    return await onBed(async (bed) => {
      const caPath = join(bed.folder, 'ca.pem')
      await writeFile(caPath, ca)
      const controller = await bed.startController({ env: { ...SETTINGS, DAVIT_EXTRA_CA_FILE: caPath } })
      const good = await goodRoutes(bed)
      const [own] = good
      if (!own) throw new Error('there is no endpoint')
      const { server, target } = await serverFor(bed, own)
      const bad = await Promise.all(
        targets.map(({ url }, i) =>
          makeEndpointFor(bed, { namespace: 'hostile', name: `hostile-${i}`, url }),
        ),
      )
      await bed.publisher.call('list', ['good-0', 'other-0', 'hostile'])
      const clients = new HostileClients(target)
      const events = await publishFor(bed, { controller, server }, { good, bad, minutes }).finally(() =>
        clients.stop(),
      )
      const met = await clients.stop()
      const figures = figuresOf(events, minutes)
      const connections = await hostile.call('connections', null)
      const reached = Object.values(connections).filter((count) => count > 0).length
      await Promise.all([controller.stop(), server.stop()])
      return {
        ...figures,
        'hostile receivers': targets.length,
        'of them reached': reached,
        'connections to them': Object.values(connections).reduce((sum, one) => sum + one, 0),
        ...clientFigures(met),
      }
    })
  } finally {
    await hostile.stop()
  }
}

/** A REST server whose owner lists the deliveries of this endpoint, and publishes to it. */
async function serverFor(bed: Bed, { namespace, endpoint, type }: EndpointRoute) {
  await installServer(bed)
  const keyFiles = await makeKeys(bed, [namespace])
  const server = await startServerBed(bed)
  await untilKeysWork(server, keyFiles)
  const key = await readFile(keyFiles[namespace] ?? '', 'utf8')
  const port = Number(new URL(server.baseUrl).port)
  return { server, target: { port, organization: namespace, key, endpointId: `whe_${endpoint}`, type } }
}

function clientFigures({ good, wrong, hostile, held }: Met): Figures {
  for (const words of wrong) report(`not as it should be: ${words}`)
  return {
    'REST server: good requests': good,
    'REST server: of them not answered as they should be': wrong.length,
    'REST server: kinds of hostile clients': Object.keys(hostile).length,
    'REST server: hostile clients': Object.values(hostile).reduce((sum, one) => sum + one, 0),
    'REST server: connections held for too long': held,
  }
}

async function goodRoutes(bed: Bed): Promise<EndpointRoute[]> {
  const one = { organizations: 1, endpoints: 1 }
  return [
    ...(await makeEndpoints(bed, { ...one, name: 'good', path: '/ok/good' })),
    ...(await makeEndpoints(bed, { ...one, name: 'other', path: '/ok/other' })),
  ]
}

type Roles = { controller: Controller; server: MeasuredServer }
type Plan = { good: readonly Route[]; bad: readonly Route[]; minutes: number }

type Run = {
  published: number
  received: number
  samples: Record<keyof Roles, MemorySample[]>
  p99: number[]
  problems: number
  pending: number
}

async function publishFor(bed: Bed, roles: Roles, { good, bad, minutes }: Plan): Promise<Run> {
  const { controller, server } = roles
  const turn = PER_SECOND * HOSTILE_EVERY_SECONDS
  const goodTurns = Array.from({ length: turn - bad.length }, (_, i) => good[i % good.length] as Route)
  const routes = spread(goodTurns, bad)
  const run = nextRun()
  await bed.receiver.call('begin', run)
  const seconds = minutes * 60
  const samples: Run['samples'] = { controller: [], server: [] }
  const started = performance.now()
  let running = true
  const publishing = bed.publisher.call('publish', {
    run,
    routes,
    seconds,
    perSecond: PER_SECOND,
    bytes: BODY_BYTES,
  })
  const ended = publishing.finally(() => {
    running = false
  })
  ended.catch(() => undefined)
  while (running) {
    await Promise.race([sleep(SAMPLE_EVERY_MS), ended])
    const at = (performance.now() - started) / 1000
    const [ofController, ofServer] = [await sampleMemory(controller, at), await sampleMemory(server, at)]
    samples.controller.push(ofController)
    samples.server.push(ofServer)
    report(
      `controller: ${wordsOf(ofController)}, ${await controller.pending()} pending; REST server: ${wordsOf(ofServer)}`,
    )
  }
  const published = await publishing
  const toBad = bad.length * Math.floor(published.events / turn)
  const left = published.events % turn
  const goodOnes =
    published.events - toBad - routes.slice(0, left).filter((route) => bad.includes(route)).length
  const received = await receivedOf(bed, goodOnes)
  return {
    published: goodOnes,
    received: received.events,
    samples,
    p99: received.timeline.map(({ p99 }) => p99),
    problems: published.refused,
    pending: await controller.pending(),
  }
}

/** Distributes the few evenly among the many. */
function spread(many: readonly Route[], few: readonly Route[]): Route[] {
  const distance = Math.floor(many.length / few.length)
  return few.flatMap((one, i) => [
    one,
    ...many.slice(i * distance, i === few.length - 1 ? many.length : (i + 1) * distance),
  ])
}

/** @throws Error if not all have arrived */
async function receivedOf(bed: Bed, wanted: number) {
  const limit = performance.now() + LAST_RECEIPT_MS
  for (;;) {
    const received = await bed.receiver.call('collect', '/ok')
    if (received.events >= wanted) return received
    if (performance.now() > limit) throw new Error(`${wanted} were accepted, ${received.events} received`)
    await sleep(200)
  }
}

function figuresOf({ published, received, samples, p99, problems, pending }: Run, minutes: number): Figures {
  const half = Math.floor(p99.length / 2)
  return {
    minutes,
    'good events': published,
    'good events received': received,
    'refused at publishing': problems,
    'pending at the end': pending,
    ...growthOf(samples.controller),
    ...prefixed('REST server: ', growthOf(samples.server)),
    'p99 of the second half over that of the first': rounded(
      medianOf(p99.slice(half)) / medianOf(p99.slice(0, half)),
    ),
  }
}

function medianOf(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0
}

function prefixed(prefix: string, figures: Figures): Figures {
  return Object.fromEntries(Object.entries(figures).map(([key, value]) => [`${prefix}${key}`, value]))
}
