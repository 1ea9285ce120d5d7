/** How long each kind of request takes while events are published by REST at half of saturation. */
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { eventTypeKind, eventTypes } from '../../../src/apis/event-type.ts'
import { API_VERSION } from '../../../src/apis/meta.ts'
import { type Bed, makeNamespace } from '../bed.ts'
import { nextRun } from '../davit-load.ts'
import { REQUEST_KINDS, type RequestKind } from '../loads/request-kinds.ts'
import { type Cost, costOf } from '../measure/cost.ts'
import type { Quantiles } from '../measure/samples.ts'
import type { HttpKindsCalls, KindTimes } from '../processes/http-kinds.ts'
import { type RemoteProcess, spawnProcess } from '../processes/remote-calls.ts'
import { report } from '../progress.ts'
import { untilKeysWork } from '../rest-clients.ts'
import { type KeyFiles, type MeasuredServer, makeKeys } from '../rest-server.ts'
import type { ServerBed } from './server-bed.ts'
import { BODY_BYTES } from './usual-load.ts'

/** Milliseconds. */
export type KindLatencies = {
  /** Published events per second, next to this many requests per second of each kind. */
  perSecond: number
  eachPerSecond: number
  /** From a request to its answer, and from the moment at which the event was due to its receipt. */
  published: Quantiles
  receipt: Quantiles
  kinds: Record<RequestKind, KindTimes>
  /** Milliseconds of CPU in a second, by process. */
  cpuPerSecond: Record<string, number>
}

const ORGANIZATIONS = ['kinds-0', 'kinds-1', 'kinds-2', 'kinds-3']
const EACH_PER_SECOND = 4
const CLIENTS = 64
/** The type that is published here, and a type that is never published. */
const DELIVERED = 'kinds.delivered'
const SILENT = 'kinds.silent'
const RECEIPT_LIMIT_MS = 60_000
const POLL_MS = 100

type Options = { perSecond: number; seconds: number }

/** @param perSecond events published */
export async function measureKinds(
  on: ServerBed,
  server: MeasuredServer,
  { perSecond, seconds }: Options,
): Promise<KindLatencies> {
  const { bed, clients, controller, routes } = on
  const asking = await prepare(bed, server)
  try {
    const run = nextRun()
    await bed.receiver.call('begin', run)
    const load = { run, routes, seconds, perSecond, bytes: BODY_BYTES }
    const pids = {
      controller: controller.pid,
      restServer: server.pid,
      clients: clients.pid,
      asking: asking.pid,
    }
    const { result, cost } = await costOf(bed, pids, async () => {
      const publishing = clients.publish(load)
      const kinds = await asking.call('ask', { perSecond: EACH_PER_SECOND, seconds })
      return { kinds, published: await publishing }
    })
    const { kinds, published } = result
    if (published.refused > 0) throw new Error(`${published.refused} events were refused`)
    const receipt = await receipts(bed, published.deliveries)
    for (const kind of REQUEST_KINDS) report(`${kind}: p99 ${kinds[kind].latency.p99.toFixed(1)} ms`)
    return {
      perSecond,
      eachPerSecond: EACH_PER_SECOND,
      published: published.accepted,
      receipt,
      kinds,
      cpuPerSecond: cpuPerSecond(cost, seconds),
    }
  } finally {
    await asking.stop()
  }
}

async function prepare(bed: Bed, { baseUrl }: MeasuredServer): Promise<RemoteProcess<HttpKindsCalls>> {
  const keyFiles = await makeOrganizations(bed)
  await untilKeysWork({ baseUrl }, keyFiles)
  const path = fileURLToPath(new URL('../processes/http-kinds.ts', import.meta.url))
  const asking = spawnProcess<HttpKindsCalls>(path)
  const plan = { url: `${bed.receiverUrl}/ok/kinds`, type: SILENT, delivered: DELIVERED }
  await asking.call('prepare', { baseUrl, keyFiles, connections: CLIENTS, plan })
  return asking
}

async function makeOrganizations(bed: Bed): Promise<KeyFiles> {
  for (const name of [DELIVERED, SILENT]) {
    const spec = { description: 'An event of the bench.' }
    const object = { apiVersion: API_VERSION, kind: eventTypeKind.kind, metadata: { name }, spec }
    await bed.api.create(eventTypes, object)
  }
  for (const name of ORGANIZATIONS) await makeNamespace(bed.api, name, { organization: true })
  return await makeKeys(bed, ORGANIZATIONS)
}

/** @throws Error when not all have come */
async function receipts(bed: Bed, wanted: number): Promise<Quantiles> {
  const limit = performance.now() + RECEIPT_LIMIT_MS
  for (;;) {
    const { events, latency } = await bed.receiver.call('collect', '/ok')
    if (events >= wanted) return latency
    if (performance.now() > limit) throw new Error(`${wanted} were accepted, ${events} received`)
    await sleep(POLL_MS)
  }
}

function cpuPerSecond({ cpu }: Cost, seconds: number): Record<string, number> {
  return Object.fromEntries(Object.entries(cpu).map(([name, ms]) => [name, ms / seconds]))
}
