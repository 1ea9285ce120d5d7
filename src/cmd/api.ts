/** The role `davit api`: serves the REST API. */
import type { AddressInfo } from 'node:net'
import { installationKey } from '../credentials/accounts/installation-key.ts'
import { isApiError } from '../kube/client.ts'
import { deriveKey } from '../lib/key-hash.ts'
import { sleep } from '../lib/sleep.ts'
import { createCursors } from '../server/cursor.ts'
import { type IndexStats, OpenDeliveryIndex } from '../server/delivery-index/delivery-index.ts'
import { createEndpointIdentities } from '../server/endpoint-identities.ts'
import { createEventTypeCatalogue } from '../server/event-type-catalogue.ts'
import { createApp } from '../server/http/rest-app.ts'
import type { RequestListener } from '../server/http/server.ts'
import { allRoutes } from '../server/routes.ts'
import { createServerServices, type ServerServices } from '../server/services.ts'
import { type ApiServer, startApiServer } from './api-server.ts'
import type { Config } from './config.ts'
import type { ApiDependencies } from './dependencies.ts'
import { withSettingName } from './of-setting.ts'

export type ApiOptions = {
  config: Config
  world: ApiDependencies
  version: string
  /** Ends the start. */
  stopping: AbortSignal
}

export type RunningApi = {
  /** What keeps it from being ready, in words; none when everything is served. */
  problems(): string[]
  /** Resolves with where it listens, once it does: what a request needs was read. @throws Error when it cannot listen */
  listening: Promise<AddressInfo>
  inFlight(): number
  indexStats(): IndexStats
  replicaStats(): ReturnType<ServerServices['replicas']>
  appendStats(): ReturnType<ServerServices['appends']>
  /** No new request; running ones end or are broken off after the drain time. */
  stop(): Promise<void>
}

type Parts = { index: OpenDeliveryIndex; services: ServerServices; key: Uint8Array }

const RETRY_MS = 1000

/** @throws whatever `stopping` was aborted with, when it was while the API server did not answer */
export async function startApi(options: ApiOptions): Promise<RunningApi> {
  const { config, world, stopping } = options
  const parts = createParts(options, await readInstallationKey(options))
  const { index, services } = parts
  index.start()
  services.start()
  let server: ApiServer | undefined
  // The log of deliveries may take longer: until it is read, only its routes are put off.
  const listening = services.ready.then(async () => {
    stopping.throwIfAborted()
    const { address: wanted } = config.api
    const listener = createListener(options, parts)
    server = await withSettingName(
      'DAVIT_API_ADDRESS',
      startApiServer({ ...world, address: wanted, listener }),
    )
    const { address, port } = server.address
    world.log.info('Listening', { address, port })
    return server.address
  })
  listening.catch(() => undefined)
  return {
    problems: () => [
      ...services.problems(),
      ...(index.problem === undefined ? [] : [index.problem]),
      ...(server ? [] : ['it does not listen yet']),
    ],
    listening,
    inFlight: () => server?.inFlight() ?? 0,
    indexStats: () => index.stats(),
    replicaStats: () => services.replicas(),
    appendStats: () => services.appends(),
    stop: async () => {
      const left = (await server?.drain({ ms: config.drainMs, lingerMs: config.api.lingerMs })) ?? 0
      if (left > 0) world.log.warn('Requests under way were broken off', { requests: left })
      await services.stop()
      await index.stop()
    },
  }
}

function createParts({ config, world }: ApiOptions, key: Uint8Array): Parts {
  const { namespace, replica, leaseMs, intake, limits, api, cloud, formerOrganizations } = config
  const index = new OpenDeliveryIndex({ needs: world, namespace, maxEntries: api.maxShown })
  const services = createServerServices({
    ...world,
    namespace,
    writer: replica,
    leaseMs,
    installationKey: key,
    limits: {
      endpointsPerOrganization: limits.endpointsPerOrganization,
      credentialsPerOrganization: cloud.credentialsPerOrganization,
      intake,
      keys: api.idempotencyKeys,
    },
    parameterPrefix: cloud.parameterPrefix,
    formerOrganizations,
    index,
  })
  return { index, services, key }
}

function createListener(options: ApiOptions, { index, services, key }: Parts): RequestListener {
  const { config, world, version } = options
  const { organizations } = services
  const { rate } = config.api
  return createApp({
    ...world,
    routes: allRoutes({
      endpoints: services.endpoints,
      identities: createEndpointIdentities(world.api),
      publishing: services.publishing,
      credentials: services.credentials,
      settings: services.settings,
      deliveries: index,
      catalogue: createEventTypeCatalogue(services.catalogue),
      cursors: createCursors(deriveKey('cursor', key), world.clock),
    }),
    version,
    organizations: { has: (name) => organizations.get(name) !== undefined },
    hashKey: deriveKey('api-key', key),
    limits: { perKey: rate.key, perOrganization: rate.organization },
  })
}

/** The API server may come up later than the facade, and so may the rights of its ServiceAccount. */
async function readInstallationKey({ config, world, stopping }: ApiOptions): Promise<Uint8Array> {
  for (;;) {
    try {
      return await installationKey({
        resources: world.api,
        namespace: config.namespace,
        random: world.random,
      })
    } catch (error) {
      if (!isApiError(error)) throw error
      world.log.warn('The key of the installation cannot be had yet; trying again', { error })
      await sleep(world.clock, RETRY_MS, stopping)
      stopping.throwIfAborted()
    }
  }
}
