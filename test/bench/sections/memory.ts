/** What bodies that wait cost a controller: its largest memory, and how often it reads them again. */
import { setTimeout as sleep } from 'node:timers/promises'
import { webhookEndpoints } from '../../../src/apis/webhook-endpoint.ts'
import { type Bed, onBed } from '../bed.ts'
import type { Controller } from '../controller.ts'
import { nextRun } from '../davit-load.ts'
import { bytesRead, peakResidentBytes } from '../measure/process-usage.ts'
import { report } from '../progress.ts'
import { type EndpointRoute, makeEndpoints } from '../topology.ts'

export type Memory = {
  what: string
  events: number
  /** Of all bodies, as they are sent. */
  bytes: number
  /** Resident, in bytes, since the process started. */
  peak: number
  /** Of everything that the process has read from its connections, nearly all of it the log: for each byte sent. */
  readPerByte: number
  seconds: number
}

/** @property events as many bodies, of `bytes` each @property wide whether each has a character that takes two bytes in memory */
type Case = { what: string; events: number; bytes: number; perSecond: number; wide: boolean }

export type MemoryPlan = { mebibytes: number }

/** Of the container, by the chart; `Dockerfile` gives Node 60 % of it. */
export const MEMORY_LIMIT = 1024 ** 3
const MIB = 1024 ** 2
const HEAP_MIB = Math.floor((MEMORY_LIMIT / MIB) * 0.6)
const DRAIN_LIMIT_MS = 900_000
const POLL_MS = 500

export async function measureMemory({ mebibytes }: MemoryPlan): Promise<Memory[]> {
  const large = { events: mebibytes * 4, bytes: 256 * 1024, perSecond: 60 }
  const small = { events: mebibytes * 128, bytes: 4096, perSecond: 1000 }
  const cases: Case[] = [
    { what: '256 KiB each', ...large, wide: false },
    { what: '256 KiB each, wide characters', ...large, wide: true },
    { what: '4 KiB each', ...small, wide: false },
  ]
  const results: Memory[] = []
  for (const one of cases) {
    // The store keeps what it had, so that each has one of its own.
    results.push(await onBed(async (bed) => await measureRunning(bed, one)))
    results.push(await onBed(async (bed) => await measureStart(bed, one)))
  }
  return results
}

/** All come about while the controller runs, and wait; then all are sent. */
async function measureRunning(bed: Bed, one: Case): Promise<Memory> {
  const { controller, route } = await prepare(bed)
  await publish(bed, route, one)
  const result = await drain(bed, controller, { route, ...one })
  return tell({ ...result, what: `${one.what}, published meanwhile` })
}

/** All wait when the controller starts. */
async function measureStart(bed: Bed, one: Case): Promise<Memory> {
  const { controller, route } = await prepare(bed)
  await controller.stop()
  await publish(bed, route, one)
  const result = await drain(bed, await start(bed), { route, ...one })
  return tell({ ...result, what: `${one.what}, there at the start` })
}

async function prepare(bed: Bed): Promise<{ controller: Controller; route: EndpointRoute }> {
  const controller = await start(bed)
  const [route] = await makeEndpoints(bed, { name: 'waits', organizations: 1, endpoints: 1, path: '/hang' })
  if (!route) throw new Error('there is no route')
  return { controller, route }
}

async function start(bed: Bed): Promise<Controller> {
  const env = { DAVIT_SHUTDOWN_TIMEOUT: '1s', DAVIT_VIEWS_PER_SECOND: '0' }
  return await bed.startController({ env, execArgv: [`--max-old-space-size=${HEAP_MIB}`] })
}

async function publish(bed: Bed, route: EndpointRoute, { events, ...load }: Case): Promise<void> {
  const run = nextRun()
  await bed.receiver.call('begin', run)
  const seconds = events / load.perSecond
  const published = await bed.publisher.call('publish', { run, routes: [route], seconds, ...load })
  if (published.events !== events) throw new Error(`${published.events} of ${events} were accepted`)
}

/** From now on the receiver takes everything. */
async function drain(
  bed: Bed,
  controller: Controller,
  { route, events, bytes }: Case & { route: EndpointRoute },
): Promise<Omit<Memory, 'what'>> {
  const started = performance.now()
  const { namespace, endpoint: name } = route
  const spec = { url: `${bed.receiverUrl}/ok/${namespace}/0` }
  await bed.api.patch(webhookEndpoints, { namespace, name }, { spec })
  const limit = started + DRAIN_LIMIT_MS
  while ((await controller.pending()) > 0) {
    if (performance.now() > limit) throw new Error(`${await controller.pending()} still wait`)
    await sleep(POLL_MS)
  }
  const received = await bed.receiver.call('collect', '/ok')
  if (received.events < events) throw new Error(`${received.events} of ${events} were received`)
  const sent = events * bytes
  return {
    events,
    bytes: sent,
    peak: peakResidentBytes(controller.pid),
    readPerByte: bytesRead(controller.pid) / sent,
    seconds: (performance.now() - started) / 1000,
  }
}

function tell(result: Memory): Memory {
  const { what, peak, readPerByte, bytes } = result
  report(
    `${(bytes / MIB).toFixed(0)} MiB, ${what}: ${(peak / MIB).toFixed(0)} MiB at most, ${readPerByte.toFixed(2)} bytes read for each`,
  )
  return result
}
