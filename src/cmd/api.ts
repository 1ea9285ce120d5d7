import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { Server as TlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { installationKey } from '../credentials/accounts/installation-key.ts'
import { isApiError } from '../kube/client.ts'
import type { Clock, Random } from '../lib/clock.ts'
import { sleep } from '../lib/sleep.ts'
import { deriveKey } from '../lib/text.ts'
import { createEndpointIdentities } from '../server/deliveries.ts'
import { type IndexStats, OpenDeliveryIndex } from '../server/delivery-index/delivery-index.ts'
import { createEventTypeCatalogue } from '../server/event-types.ts'
import { createApp } from '../server/http/app.ts'
import type { CertificateSource } from '../server/http/certificate.ts'
import { createHttpServer, type RequestListener } from '../server/http/server.ts'
import { allRoutes } from '../server/routes.ts'
import { createCursors } from '../server/schemas.ts'
import { createServerServices, type ServerServices } from '../server/services.ts'
import type { Config } from './config.ts'
import type { ApiDependencies } from './dependencies.ts'
import { withSettingName } from './process.ts'

/** The facade's HTTP server as a process has it: it listens, counts, and ends without breaking off an answer. */

export type ApiServerOptions = {
  /** An address without brackets; port 0: any free one. */
  address: { host: string; port: number }
  listener: RequestListener
  /** Absent: plain http. */
  certificate?: CertificateSource | undefined
  clock: Clock
  random: Random
}

export type ApiServer = {
  address: AddressInfo
  /** Requests that are being answered. */
  inFlight(): number
  /**
   * Ends within `ms`. For `lingerMs` of them whoever still comes is served, since it takes a while until nobody is sent
   * here any more, and told to come no more on that connection. Then no new connection, and none that waits for its
   * next request; requests under way are answered.
   * @returns how many were broken off after `ms`
   */
  drain(times: { ms: number; lingerMs: number }): Promise<number>
}

/** @throws Error when the address cannot be listened on, or the certificate is none */
export async function startApiServer(options: ApiServerOptions): Promise<ApiServer> {
  const { address, listener, certificate, clock, random } = options
  const answering = new Set<ServerResponse>()
  let draining = false
  let closing = false
  const server = createHttpServer(
    (request: IncomingMessage, response: ServerResponse) => {
      answering.add(response)
      if (draining) response.shouldKeepAlive = false
      response.once('close', () => {
        answering.delete(response)
        // Its connection would wait for a request that must not come.
        if (closing) setImmediate(() => server.closeIdleConnections())
      })
      listener(request, response)
    },
    { random, certificate: certificate?.current() },
  )
  certificate?.listen((renewed) => {
    if (server instanceof TlsServer) server.setSecureContext(renewed)
  })
  await listen(server, address)
  return {
    address: server.address() as AddressInfo,
    inFlight: () => answering.size,
    async drain({ ms, lingerMs }) {
      draining = true
      for (const response of answering) response.shouldKeepAlive = false
      if (lingerMs > 0) await sleep(clock, lingerMs)
      closing = true
      const closed = new Promise<void>((resolve) => server.close(() => resolve()))
      await Promise.race([closed, sleep(clock, ms - lingerMs)])
      const left = answering.size
      server.closeAllConnections()
      await closed
      return left
    },
  }
}

function listen(server: Server, { host, port }: ApiServerOptions['address']): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, () => {
      server.off('error', reject)
      resolve()
    })
  })
}

/** The role `davit api`: serves the REST API. */

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
