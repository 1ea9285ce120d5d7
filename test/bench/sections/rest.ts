/** The REST server: publishing, each kind of request, memory over many requests, and a long log. */

import { describeVersions, type Facts } from '../machine.ts'
import { report } from '../progress.ts'
import { startServerBed } from '../rest-server.ts'
import type { Plan } from '../settings.ts'
import { type KindLatencies, measureKinds } from './rest-kinds.ts'
import { measureServerLog, type ServerLog } from './rest-log.ts'
import { measureServerMemory, type ServerMemory } from './rest-memory.ts'
import { measureServerSaturation, type ServerSaturation } from './rest-saturation.ts'
import { makeEndpointsWithKeys, onServerBed, runByRest, type ServerBed } from './server-bed.ts'
import { BODY_BYTES, WINDOW } from './usual-load.ts'

export type ServerResult = {
  versions: Facts
  saturation: ServerSaturation
  /** Deliveries a second of 200 clients, with the keys of 10 organizations of 10 endpoints. */
  manyClients: number
  kinds: KindLatencies
  memory: ServerMemory
  log: ServerLog
}

const MANY = { name: 'many', organizations: 10, endpoints: 10, path: '/ok' }
const CLIENTS = 200

export async function measureServer(plan: Plan): Promise<ServerResult> {
  const measured = await onServerBed((on) => measureRunning(on, plan))
  return { ...measured, log: await measureServerLog(plan.logLines) }
}

async function measureRunning(on: ServerBed, plan: Plan): Promise<Omit<ServerResult, 'log'>> {
  const { rounds, restSeconds: seconds } = plan
  const saturation = await measureServerSaturation(on, { rounds, seconds })
  const { routes, keyFiles } = await makeEndpointsWithKeys(on.bed, MANY)
  const server = await startServerBed(on.bed)
  await on.clients.connect(server, keyFiles, CLIENTS)
  const load = { routes, seconds, publishers: CLIENTS, window: WINDOW, bytes: BODY_BYTES }
  const { perSecond: manyClients } = await runByRest(on, server, load)
  report(`by REST, ${CLIENTS} clients: ${Math.round(manyClients)}/s`)
  await on.clients.connect(server, on.keyFiles, CLIENTS)
  const perSecond = Math.round(saturation.perSecond.median / 2)
  const kinds = await measureKinds(on, server, { perSecond, seconds: plan.kindsSeconds })
  await server.stop()
  const target = { keyFiles, endpointId: 'whe_endpoint-0', type: routes[0]?.type ?? '' }
  const memory = await measureServerMemory(on, plan.requests, target)
  return { versions: await describeVersions(on.bed.controlPlane), saturation, manyClients, kinds, memory }
}
