/** The REST server: publishing, each kind of request, memory over many requests, and a long log. */
import { type Bed, onBed } from '../bed.ts'
import { installServer, makeKeys, startServerBed } from '../facade.ts'
import { startClients } from '../facade-clients.ts'
import type { Route } from '../loads/publishing.ts'
import { describeVersions, type Facts } from '../machine.ts'
import { report } from '../progress.ts'
import type { Plan } from '../settings.ts'
import { makeEndpoints } from '../topology.ts'
import { type KindLatencies, measureKinds } from './facade-kinds.ts'
import { measureServerLog, type ServerLog } from './facade-log.ts'
import { measureServerMemory, type ServerMemory } from './facade-memory.ts'
import {
  measureServerSaturation,
  runByRest,
  type ServerBed,
  type ServerSaturation,
} from './facade-saturation.ts'
import { makeEndpoint, startWarm } from './usual-load.ts'

export type ServerResult = {
  versions: Facts
  saturation: ServerSaturation
  /** Deliveries a second of 200 clients, with the keys of 10 organizations of 10 endpoints. */
  manyClients: number
  kinds: KindLatencies
  memory: ServerMemory
  log: ServerLog
}

const ORGANIZATIONS = 10
const ENDPOINTS = 10
const CLIENTS = 200

export async function measureServer(plan: Plan): Promise<ServerResult> {
  const measured = await onBed(async (bed) => {
    const on = await setUp(bed)
    try {
      return await measureRunning(on, plan)
    } finally {
      await on.clients.stop()
    }
  })
  return { ...measured, log: await measureServerLog(plan.logLines) }
}

async function setUp(bed: Bed): Promise<ServerBed> {
  await installServer(bed)
  const routes = await makeEndpoint(bed)
  const controller = await startWarm(bed, routes)
  const keyFiles = await makeKeys(bed, organizationsOf(routes))
  return { bed, controller, clients: startClients(), routes, keyFiles }
}

async function measureRunning(on: ServerBed, plan: Plan): Promise<Omit<ServerResult, 'log'>> {
  const { rounds, facadeSeconds: seconds } = plan
  const saturation = await measureServerSaturation(on, { rounds, seconds })
  const { routes, keyFiles } = await makeMany(on.bed)
  const facade = await startServerBed(on.bed)
  await on.clients.connect(facade, keyFiles, CLIENTS)
  const { perSecond: manyClients } = await runByRest(on, facade, { routes, seconds, clients: CLIENTS })
  report(`by REST, ${CLIENTS} clients: ${Math.round(manyClients)}/s`)
  await on.clients.connect(facade, on.keyFiles, CLIENTS)
  const perSecond = Math.round(saturation.perSecond.median / 2)
  const kinds = await measureKinds(on, facade, { perSecond, seconds: plan.kindsSeconds })
  await facade.stop()
  const target = { keyFiles, endpointId: 'whe_endpoint-0', type: routes[0]?.type ?? '' }
  const memory = await measureServerMemory(on, plan.requests, target)
  return { versions: await describeVersions(on.bed.controlPlane), saturation, manyClients, kinds, memory }
}

async function makeMany(bed: Bed) {
  const topology = { name: 'many', organizations: ORGANIZATIONS, endpoints: ENDPOINTS, path: '/ok' }
  const routes = await makeEndpoints(bed, topology)
  return { routes, keyFiles: await makeKeys(bed, organizationsOf(routes)) }
}

function organizationsOf(routes: readonly Route[]): string[] {
  return [...new Set(routes.map(({ namespace }) => namespace))]
}
