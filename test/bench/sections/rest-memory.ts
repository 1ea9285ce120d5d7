/** The memory of the REST server after very many requests. */
import { fileURLToPath } from 'node:url'
import { residentBytes } from '../measure/process-usage.ts'
import type { HttpMixCalls } from '../processes/http-mix.ts'
import { spawnProcess } from '../processes/remote-calls.ts'
import { report } from '../progress.ts'
import { untilKeysWork } from '../rest-clients.ts'
import { type KeyFiles, type MeasuredServer, startServerBed } from '../rest-server.ts'
import type { ServerBed } from './server-bed.ts'

export type ServerMemory = {
  requests: number
  clients: number
  perSecond: number
  /** At the start, after a quarter, and so on. */
  samples: MemorySample[]
}

/** Bytes: all that is resident, what is in use after a collection, and the index of the log, with its lines. */
export type MemorySample = {
  requests: number
  resident: number
  inUse: number
  index: number
  lines: number
}

const QUARTERS = 4
const CLIENTS = 64
/** Before the first look, so that what is made once is made. */
const WARM_UP_REQUESTS = 20_000

/** @param target `endpointId` and `type` of an endpoint that each of the organizations has */
export async function measureServerMemory(
  { bed }: ServerBed,
  requests: number,
  target: { keyFiles: KeyFiles; endpointId: string; type: string },
): Promise<ServerMemory> {
  const server = await startServerBed(bed)
  const path = fileURLToPath(new URL('../processes/http-mix.ts', import.meta.url))
  const clients = spawnProcess<HttpMixCalls>(path)
  try {
    await untilKeysWork(server, target.keyFiles)
    await clients.call('connect', { baseUrl: server.baseUrl, clients: CLIENTS, ...target })
    await clients.call('ask', Math.min(requests, WARM_UP_REQUESTS))
    const samples = [await look(server, 0)]
    let seconds = 0
    for (let quarter = 1; quarter <= QUARTERS; quarter += 1) {
      seconds += await clients.call('ask', requests / QUARTERS)
      samples.push(await look(server, (requests * quarter) / QUARTERS))
    }
    return { requests, clients: CLIENTS, perSecond: requests / seconds, samples }
  } finally {
    await clients.stop()
    await server.stop()
  }
}

async function look(server: MeasuredServer, requests: number): Promise<MemorySample> {
  // Measured before a collection, which may return memory.
  const resident = residentBytes(server.pid)
  const sample = {
    requests,
    resident,
    inUse: await server.call('heap', null),
    index: await server.gauge('davit_index_bytes'),
    lines: await server.gauge('davit_index_deliveries'),
  }
  report(`after ${requests} requests: ${(resident / 2 ** 20).toFixed(0)} MiB resident`)
  return sample
}
