/** A long log of one endpoint in a REST server: how long it takes to read, its memory, and the time of a page over REST. */

import { fileURLToPath } from 'node:url'
import { API_VERSION } from '../../../src/apis/meta.ts'
import { webhookEndpointKind, webhookEndpoints } from '../../../src/apis/webhook-endpoint.ts'
import { createRandom } from '../../../src/lib/time.ts'
import { type Bed, makeNamespace, onBed, SYSTEM } from '../bed.ts'
import { RARE_TYPE, USUAL_TYPE, writeStoredLog } from '../loads/stored-log.ts'
import { residentBytes } from '../measure/process-usage.ts'
import type { Quantiles } from '../measure/samples.ts'
import type { HttpPagesCalls, Walked } from '../processes/http-pages.ts'
import { spawnProcess } from '../processes/remote-calls.ts'
import { report } from '../progress.ts'
import { untilKeysWork } from '../rest-clients.ts'
import { installServer, type KeyFiles, makeKeys, startServerBed } from '../rest-server.ts'

export type ServerLog = {
  lines: number
  /** Without and with a log: the time until the REST server was ready, and resident and used bytes after a collection. */
  without: LogFootprint
  with: LogFootprint
  /** Of memory in use, over that without a log. */
  bytesEach: number
  /** Pages of 200, one after the other from the newest to the oldest. */
  walk: Walked
  /** Milliseconds of a page of 50. */
  pages: Record<PageKind, Quantiles>
}

/** `index` is the REST server's own count of log lines. */
type LogFootprint = { readySeconds: number; resident: number; inUse: number; index: number }

/** A hundredth of the log is `failed`, a thousandth `rare type`, and the very oldest line alone `exhausted`. */
export type PageKind = 'newest' | 'middle' | 'failed' | 'rare type' | 'exhausted'

const PAGES: Readonly<Record<PageKind, { query: string; middle?: boolean; count: number }>> = {
  newest: { query: 'limit=50', count: 1000 },
  middle: { query: 'limit=50', middle: true, count: 1000 },
  failed: { query: 'limit=50&status=retrying', count: 200 },
  'rare type': { query: `limit=50&eventType=${RARE_TYPE}`, count: 200 },
  exhausted: { query: 'limit=50&status=exhausted', count: 50 },
}
const LONGEST_PAGE = 200
const ORGANIZATION = 'long-log'
const ENDPOINT = 'endpoint-0'

/** No controller runs, so nothing is sent or deleted. */
export async function measureServerLog(lines: number): Promise<ServerLog> {
  return await onBed(async (bed) => {
    await installServer(bed)
    const { uid, keyFiles } = await makeOrganization(bed)
    const without = await footprint(bed)
    await writeStoredLog(
      { namespace: SYSTEM, organization: ORGANIZATION, endpoint: { name: ENDPOINT, uid }, lines },
      { api: bed.api, random: createRandom(), now: Date.now() },
    )
    report(`${lines} deliveries are in the log`)
    return await readLog(bed, keyFiles, { lines, without })
  })
}

async function readLog(
  bed: Bed,
  keyFiles: KeyFiles,
  { lines, without }: { lines: number; without: LogFootprint },
): Promise<ServerLog> {
  const server = await startServerBed(bed)
  const reader = spawnProcess<HttpPagesCalls>(
    fileURLToPath(new URL('../processes/http-pages.ts', import.meta.url)),
  )
  try {
    const held = { readySeconds: server.readyAfter, ...(await memoryOf(server)) }
    report(`${lines} deliveries are read after ${server.readyAfter.toFixed(1)} s`)
    await untilKeysWork(server, keyFiles)
    const path = `/organizations/${ORGANIZATION}/webhooks/whe_${ENDPOINT}/deliveries`
    const keyFile = keyFiles[ORGANIZATION] ?? ''
    await reader.call('connect', { baseUrl: server.baseUrl, path, keyFile })
    const walk = await reader.call('walk', LONGEST_PAGE)
    if (walk.lines !== lines || walk.different !== lines)
      throw new Error(`of ${lines} deliveries ${walk.lines} are listed, ${walk.different} different ones`)
    const pages: Partial<ServerLog['pages']> = {}
    for (const kind of Object.keys(PAGES) as PageKind[]) {
      pages[kind] = await reader.call('pages', PAGES[kind])
      report(`pages (${kind}): p99 ${pages[kind].p99.toFixed(1)} ms`)
    }
    const bytesEach = (held.inUse - without.inUse) / lines
    return { lines, without, with: held, bytesEach, walk, pages: pages as ServerLog['pages'] }
  } finally {
    await reader.stop()
    await server.stop()
  }
}

async function footprint(bed: Bed): Promise<LogFootprint> {
  const server = await startServerBed(bed)
  const memory = await memoryOf(server)
  await server.stop()
  return { readySeconds: server.readyAfter, ...memory }
}

async function memoryOf(server: Awaited<ReturnType<typeof startServerBed>>) {
  const resident = residentBytes(server.pid)
  return { resident, inUse: await server.call('heap', null), index: await server.gauge('davit_index_bytes') }
}

async function makeOrganization(bed: Bed): Promise<{ uid: string; keyFiles: KeyFiles }> {
  await makeNamespace(bed.api, ORGANIZATION, { organization: true })
  const { metadata } = await bed.api.create(webhookEndpoints, {
    apiVersion: API_VERSION,
    kind: webhookEndpointKind.kind,
    metadata: { name: ENDPOINT, namespace: ORGANIZATION },
    spec: { url: `${bed.receiverUrl}/ok`, eventTypes: [USUAL_TYPE, RARE_TYPE] },
  })
  return { uid: metadata.uid ?? '', keyFiles: await makeKeys(bed, [ORGANIZATION]) }
}
