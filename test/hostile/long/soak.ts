/** Good endpoints beside one of each hostile kind, for as long as one likes: what the controller holds must not grow. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { type Bed, onBed } from '../../bench/bed.ts'
import type { Controller } from '../../bench/controller.ts'
import { nextRun } from '../../bench/davit-load.ts'
import type { Route } from '../../bench/loads/publishing.ts'
import { spawnProcess } from '../../bench/processes/remote-calls.ts'
import { report } from '../../bench/progress.ts'
import { makeEndpoints } from '../../bench/topology.ts'
import { type Figures, rounded } from '../figures.ts'
import { makeEndpointFor } from './endpoint.ts'
import { type MemorySample, sampleMemory, slopeOf } from './memory.ts'
import type { HostileCalls } from './receivers-process.ts'

const RECEIVERS = fileURLToPath(new URL('./receivers-process.ts', import.meta.url))

const PER_SECOND = 10
/** Each hostile endpoint gets one event in so many seconds. One that hangs has one attempt at a time of 20 seconds, eight for each event. */
const HOSTILE_EVERY_SECONDS = 240
const BODY_BYTES = 180
const SAMPLE_EVERY_MS = 30_000
/** Caches fill and engines compile before this share of the run is over. */
const WARM_SHARE = 0.25
const SETTINGS = {
  // Eight attempts take minutes instead of nine hours, so that as many end as begin.
  DAVIT_WAIT_SCALE: '0.001',
  DAVIT_RETENTION_SUCCEEDED_SECONDS: '60',
  DAVIT_RETENTION_FAILED_SECONDS: '60',
  DAVIT_MAX_LOG_BYTES: String(32 * 2 ** 20),
  DAVIT_DRAIN_SECONDS: '1',
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
      const bad = await Promise.all(
        targets.map(({ url }, i) =>
          makeEndpointFor(bed, { namespace: 'hostile', name: `hostile-${i}`, url }),
        ),
      )
      await bed.publisher.call('list', ['good-0', 'other-0', 'hostile'])
      const events = await publishFor(bed, controller, { good, bad, minutes })
      const figures = figuresOf(events, minutes)
      const connections = await hostile.call('connections', null)
      const reached = Object.values(connections).filter((count) => count > 0).length
      await controller.stop()
      return {
        ...figures,
        'hostile receivers': targets.length,
        'of them reached': reached,
        'connections to them': Object.values(connections).reduce((sum, one) => sum + one, 0),
      }
    })
  } finally {
    await hostile.stop()
  }
}

async function goodRoutes(bed: Bed): Promise<Route[]> {
  const one = { organizations: 1, endpoints: 1 }
  return [
    ...(await makeEndpoints(bed, { ...one, name: 'good', deliveryLog: 'Objects', path: '/ok/good' })),
    ...(await makeEndpoints(bed, { ...one, name: 'other', deliveryLog: 'Segments', path: '/ok/other' })),
  ]
}

type Plan = { good: readonly Route[]; bad: readonly Route[]; minutes: number }

type Run = {
  published: number
  received: number
  samples: MemorySample[]
  p99: number[]
  problems: number
  pending: number
}

async function publishFor(bed: Bed, controller: Controller, { good, bad, minutes }: Plan): Promise<Run> {
  const turn = PER_SECOND * HOSTILE_EVERY_SECONDS
  const goodTurns = Array.from({ length: turn - bad.length }, (_, i) => good[i % good.length] as Route)
  const routes = spread(goodTurns, bad)
  const run = nextRun()
  await bed.receiver.call('begin', run)
  const seconds = minutes * 60
  const samples: MemorySample[] = []
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
    const sample = await sampleMemory(controller, (performance.now() - started) / 1000)
    samples.push(sample)
    report(
      `heap ${mb(sample.heap)} MB, resident ${mb(sample.resident)} MB, ${sample.files} files, ${await controller.pending()} pending`,
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

/** The few at even distances among the many. */
function spread(many: readonly Route[], few: readonly Route[]): Route[] {
  const distance = Math.floor(many.length / few.length)
  return few.flatMap((one, i) => [
    one,
    ...many.slice(i * distance, i === few.length - 1 ? many.length : (i + 1) * distance),
  ])
}

/** @throws Error when not all have come */
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
  const steady = samples.slice(Math.floor(samples.length * WARM_SHARE))
  const perHour = (of: (sample: MemorySample) => number) =>
    slopeOf(steady.map((sample) => ({ x: sample.at / 3600, y: of(sample) })))
  const half = Math.floor(p99.length / 2)
  return {
    minutes,
    'good events': published,
    'good events received': received,
    'refused at publishing': problems,
    'pending at the end': pending,
    'heap at the start of the steady part, MB': mb(steady[0]?.heap ?? 0),
    'heap at the end, MB': mb(samples.at(-1)?.heap ?? 0),
    'heap slope, MB/h': mb(perHour(({ heap }) => heap)),
    'resident slope, MB/h': mb(perHour(({ resident }) => resident)),
    'most resident, MB': mb(Math.max(0, ...samples.map(({ resident }) => resident))),
    'open files, most': Math.max(0, ...samples.map(({ files }) => files)),
    'open files at the end': samples.at(-1)?.files ?? 0,
    'p99 of the second half over that of the first': rounded(
      medianOf(p99.slice(half)) / medianOf(p99.slice(0, half)),
    ),
  }
}

function medianOf(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0
}

function mb(bytes: number): number {
  return rounded(bytes / 2 ** 20)
}
