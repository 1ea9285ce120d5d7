/** The REST server: publishing, each kind of request, memory over many requests, and a long log. */
import type { DeliveryLogMode } from '../../../src/apis/webhook-endpoint.ts'
import { type Bed, onBed } from '../bed.ts'
import { installServer, type KeyFiles, makeKeys, startServerBed } from '../facade.ts'
import { startClients } from '../facade-clients.ts'
import { describeVersions, type Facts } from '../machine.ts'
import { report } from '../progress.ts'
import type { Plan } from '../settings.ts'
import { makeEndpoints } from '../topology.ts'
import { makeEndpointOfEach, WAYS, warm } from './both-ways.ts'
import { type KindLatencies, measureKinds } from './facade-kinds.ts'
import { measureServerLog, type ServerLog } from './facade-log.ts'
import { measureServerMemory, type ServerMemory } from './facade-memory.ts'
import {
  measureServerSaturation,
  runByRest,
  type ServerBed,
  type ServerSaturation,
} from './facade-saturation.ts'

export type ServerResult = {
  versions: Facts
  saturation: Record<DeliveryLogMode, ServerSaturation>
  /** Deliveries a second of 200 clients, with the keys of 10 organizations of 10 endpoints. */
  manyClients: Record<DeliveryLogMode, number>
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
  const controller = await bed.startController()
  const endpoints = await makeEndpointOfEach(bed)
  await warm(bed, controller, endpoints)
  const organizations = WAYS.flatMap((way) => endpoints[way].map(({ namespace }) => namespace))
  const keyFiles = await makeKeys(bed, organizations)
  return { bed, controller, clients: startClients(), endpoints, keyFiles }
}

async function measureRunning(on: ServerBed, plan: Plan): Promise<Omit<ServerResult, 'log'>> {
  const { rounds, facadeSeconds: seconds } = plan
  const saturation = await measureServerSaturation(on, { rounds, seconds })
  const many = await makeMany(on.bed)
  const facade = await startServerBed(on.bed)
  const manyClients = { Objects: 0, Segments: 0 }
  for (const way of WAYS) {
    const { routes, keyFiles } = many[way]
    await on.clients.connect(facade, keyFiles, CLIENTS)
    manyClients[way] = (await runByRest(on, facade, { routes, seconds, clients: CLIENTS })).perSecond
    report(`${way} by REST, ${CLIENTS} clients: ${Math.round(manyClients[way])}/s`)
  }
  await on.clients.connect(facade, on.keyFiles, CLIENTS)
  const perSecond = Math.round(saturation.Segments.perSecond.median / 2)
  const kinds = await measureKinds(on, facade, { perSecond, seconds: plan.kindsSeconds })
  await facade.stop()
  const target = { keyFiles: many.Segments.keyFiles, endpointId: 'whe_endpoint-0' }
  const type = many.Segments.routes[0]?.type ?? ''
  const memory = await measureServerMemory(on, plan.requests, { ...target, type })
  return { versions: await describeVersions(on.bed.controlPlane), saturation, manyClients, kinds, memory }
}

async function makeMany(bed: Bed) {
  const of = async (way: DeliveryLogMode) => {
    const name = `many-${way.toLowerCase()}`
    const topology = { name, organizations: ORGANIZATIONS, endpoints: ENDPOINTS, deliveryLog: way }
    const routes = await makeEndpoints(bed, { ...topology, path: '/ok' })
    const names = new Set(routes.map(({ namespace }) => namespace))
    const keyFiles: KeyFiles = await makeKeys(bed, [...names])
    return { routes, keyFiles }
  }
  return { Objects: await of('Objects'), Segments: await of('Segments') }
}
