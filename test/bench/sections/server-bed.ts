/** A bed on which events are published by REST, each client on a connection of its own. */
import { type Bed, onBed } from '../bed.ts'
import type { Controller } from '../controller.ts'
import { type LoadResult, type Publishers, runLoad } from '../davit-load.ts'
import type { LoadPlan, Route } from '../loads/publishing.ts'
import { type ServerClients, startClients } from '../rest-clients.ts'
import { installServer, type KeyFiles, type MeasuredServer, makeKeys } from '../rest-server.ts'
import { type EndpointRoute, makeEndpoints, type Topology } from '../topology.ts'
import { makeEndpoint, startWarm } from './usual-load.ts'

export type ServerBed = IdleServerBed & { controller: Controller }

/** Without Davit's processes. */
export type IdleServerBed = {
  bed: Bed
  clients: ServerClients
  routes: readonly Route[]
  keyFiles: KeyFiles
}

/**
 * Runs `work` with a controller and an endpoint; `work` starts the REST server.
 * @param start absent: the controller has had load already
 */
export async function onServerBed<T>(
  work: (on: ServerBed) => Promise<T>,
  start: (bed: Bed, routes: readonly Route[]) => Promise<Controller> = startWarm,
): Promise<T> {
  return await onIdleServerBed(async (idle) => {
    const controller = await start(idle.bed, idle.routes)
    return await work({ ...idle, controller })
  })
}

/** Runs `work` with an endpoint; `work` starts the controller and the REST server. */
export async function onIdleServerBed<T>(work: (on: IdleServerBed) => Promise<T>): Promise<T> {
  return await onBed(async (bed) => {
    await installServer(bed)
    const routes = await makeEndpoint(bed)
    const keyFiles = await makeKeys(bed, organizationsOf(routes))
    const clients = startClients()
    try {
      return await work({ bed, clients, routes, keyFiles })
    } finally {
      await clients.stop()
    }
  })
}

/** @returns also the API tokens with which to publish to these endpoints */
export async function makeEndpointsWithKeys(
  bed: Bed,
  topology: Topology,
): Promise<{ routes: EndpointRoute[]; keyFiles: KeyFiles }> {
  const routes = await makeEndpoints(bed, topology)
  return { routes, keyFiles: await makeKeys(bed, organizationsOf(routes)) }
}

/** @param publishers absent: the bed's clients, which must be connected */
export async function runByRest(
  { bed, controller, clients }: ServerBed,
  server: MeasuredServer,
  load: LoadPlan,
  publishers: Publishers = clients,
): Promise<LoadResult> {
  const pids = { restServer: server.pid, clients: clients.pid }
  return await runLoad({ bed, controllerPid: controller.pid, load, publishers, pids })
}

/** @throws Error if the REST server refused an event */
export function assertNoneRefused({ published }: LoadResult): void {
  if (published.refused > 0) throw new Error(`${published.refused} events were refused`)
}

function organizationsOf(routes: readonly Route[]): string[] {
  return [...new Set(routes.map(({ namespace }) => namespace))]
}
