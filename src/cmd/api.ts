/**
 * The map of `davit api`, the REST server: what its resources read and write, and when it is ready.
 *
 * | Resource                        | Service (src/server/)                | Reads from                                 | Writes           |
 * | ------------------------------- | ------------------------------------ | ------------------------------------------ | ---------------- |
 * | endpoints, signing secrets      | endpoints.ts                         | watch of WebhookEndpoints                  | WebhookEndpoints, Secrets |
 * | events (publish), redeliveries  | events.ts                            | watches of endpoints and event types       | delivery log     |
 * | registry credentials            | credentials.ts                       | watch of RegistryCredentials               | RegistryCredentials, parameters |
 * | secrets settings                | secrets-settings.ts                  | SecretsSettings, one by one                | SecretsSettings  |
 * | deliveries                      | delivery-index/                      | watches of WebhookDeliveries and the log   | nothing          |
 * | event stream                    | stream/                              | the delivery index                         | nothing          |
 * | event types                     | event-types.ts                       | watch of EventTypes                        | nothing          |
 * | idempotency keys (all writes)   | idempotency.ts                       | watch of the delivery log                  | delivery log     |
 *
 * A request passes http/app.ts (limits, token, rights, validation) and then the route that routes.ts lists. A write of an endpoint also
 * waits for the other replicas (peers.ts). `server/watches.ts` lists the watches; `server/services.ts` wires the services.
 */
import type { AddressInfo } from 'node:net'
import { deliverySegments } from '../apis/delivery-segment.ts'
import { installationKey } from '../credentials/accounts/identity.ts'
import { isApiError } from '../kube/client.ts'
import { withSharedWatches } from '../kube/shared-watch.ts'
import { deriveKey } from '../lib/text.ts'
import { sleep } from '../lib/time.ts'
import { type IndexStats, OpenDeliveryIndex } from '../server/delivery-index/delivery-index.ts'
import { createApp } from '../server/http/app.ts'
import { type ApiServer, type RequestListener, startApiServer } from '../server/http/server.ts'
import { Cursors } from '../server/lists.ts'
import { allRoutes } from '../server/routes.ts'
import { createServerServices, type ServerServices } from '../server/services.ts'
import type { StreamStats } from '../server/stream/event-streams.ts'
import { KubernetesLogStore } from '../webhooks/log/kubernetes-store.ts'
import type { LogStore } from '../webhooks/log/log-store.ts'
import type { Config } from './config.ts'
import type { ApiDependencies } from './dependencies.ts'
import { withSettingName } from './process.ts'

export type ApiOptions = {
  config: Config
  dependencies: ApiDependencies
  version: string
  /** Ends the start. */
  stopping: AbortSignal
}

export type RunningApi = {
  /** Why it is not ready, in words; none while everything is served. */
  problems(): string[]
  /** Resolves with its address once everything that requests need was read. @throws Error when it cannot listen */
  listening: Promise<AddressInfo>
  /** Rejects when only another version can go on. */
  ended: Promise<never>
  inFlight(): number
  indexStats(): IndexStats
  replicaStats(): ReturnType<ServerServices['replicas']>
  publishStats(): ReturnType<ServerServices['publishStats']>
  streamStats(): StreamStats
  /** Answers the requests in flight, or cuts them off after the drain time. */
  stop(): Promise<void>
}

const RETRY_MS = 1000
/** Seconds of the log at thousands of events a second: the delivery index finds there what came while it was listing. */
const SHARED_WATCH_BYTES = 8 * 1024 * 1024

/** @throws the reason of `stopping`, if it aborts while the API server does not answer */
export async function startApi(given: ApiOptions): Promise<RunningApi> {
  const end = Promise.withResolvers<never>()
  end.promise.catch(() => undefined)
  const onNewerFormat = (error: Error) => end.reject(error)
  const options = { ...given, dependencies: { ...given.dependencies, onNewerFormat } }
  const { config, dependencies, stopping } = options
  const key = await readInstallationKey(options)
  const { api: resources } = dependencies
  const store = new KubernetesLogStore({
    ...dependencies,
    resources,
    namespace: config.namespace,
    watching: { ...dependencies, api: withSharedWatches(resources, deliverySegments, SHARED_WATCH_BYTES) },
  })
  const index = new OpenDeliveryIndex({ needs: dependencies, store, maxEntries: config.api.maxDeliveries })
  const services = createServices(options, { index, store }, key)
  index.start()
  services.start()
  let server: ApiServer | undefined
  // The delivery index may take longer to read: only its own routes wait for it.
  const listening = services.ready.then(async () => {
    stopping.throwIfAborted()
    const listener = createListener(options, index, services, key)
    const { address: listenAt, maxConnections } = config.api
    const limits = { connections: maxConnections }
    const started = startApiServer({ ...dependencies, address: listenAt, listener, limits })
    server = await withSettingName('DAVIT_API_ADDRESS', started)
    const { address, port } = server.address
    dependencies.log.info('api_listening', 'listening', { address, port })
    return server.address
  })
  listening.catch(() => undefined)
  return {
    problems: () => [
      ...services.problems(),
      ...(index.problem === undefined ? [] : [index.problem]),
      ...(server ? [] : ['not listening yet']),
    ],
    listening,
    ended: end.promise,
    inFlight: () => Math.max(0, (server?.inFlight() ?? 0) - services.streams.size),
    indexStats: () => index.stats(),
    replicaStats: () => services.replicas(),
    publishStats: () => services.publishStats(),
    streamStats: () => {
      const { size: open, dropped } = services.streams
      return { open, dropped, bytes: index.messageBytes }
    },
    stop: async () => {
      const { drainMs: ms } = config
      const { lingerMs } = config.api
      const left = (await server?.drain({ ms, lingerMs, onClosing: () => services.streams.stop() })) ?? 0
      if (left > 0)
        dependencies.log.warn('requests_aborted', 'aborted requests in progress', { requests: left })
      await services.stop()
      await index.stop()
    },
  }
}

function createServices(
  { config, dependencies }: ApiOptions,
  log: { index: OpenDeliveryIndex; store: LogStore },
  key: Uint8Array,
): ServerServices {
  const { intake, limits, api, cloud } = config
  return createServerServices({
    ...dependencies,
    namespace: config.namespace,
    writer: config.replica,
    leaseMs: config.leaseMs,
    installationKey: key,
    limits: {
      endpointsPerOrganization: limits.endpointsPerOrganization,
      credentialsPerOrganization: cloud.credentialsPerOrganization,
      intake,
      keys: api.idempotencyKeys,
    },
    parameterPrefix: cloud.parameterPrefix,
    formerOrganizations: config.formerOrganizations,
    ...log,
  })
}

function createListener(
  { config, dependencies, version }: ApiOptions,
  index: OpenDeliveryIndex,
  services: ServerServices,
  key: Uint8Array,
): RequestListener {
  const { rate } = config.api
  return createApp({
    ...dependencies,
    routes: allRoutes({
      endpoints: services.endpoints,
      publishing: services.publishing,
      credentials: services.credentials,
      settings: services.settings,
      boxTemplates: services.boxTemplates,
      deliveries: index,
      events: services.events,
      streams: services.streams,
      catalogue: services.catalogue,
      cursors: new Cursors(deriveKey('cursor', key), dependencies.clock),
    }),
    version,
    organizations: { has: (name) => services.organizations.get(name) !== undefined },
    hashKey: deriveKey('api-key', key),
    limits: { perKey: rate.key, perOrganization: rate.organization },
  })
}

/** Retries: the API server may start later, and so may the rights of the ServiceAccount. */
async function readInstallationKey({ config, dependencies, stopping }: ApiOptions): Promise<Uint8Array> {
  const { api: resources, random, clock, log } = dependencies
  for (;;) {
    try {
      return await installationKey({ resources, namespace: config.namespace, random })
    } catch (error) {
      if (!isApiError(error)) throw error
      log.warn('installation_key_unavailable', 'failed to read the installation key; retrying', { error })
      await sleep(clock, RETRY_MS, stopping)
      stopping.throwIfAborted()
    }
  }
}
