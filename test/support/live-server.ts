/**
 * The REST server's services on the real API server, with a controller of test/support/davit.ts, and without HTTP:
 *
 *   const davit = await startDavit('endpoints')
 *   const server = await startLiveServer(davit)
 *   const { endpoint, secret } = await server.endpoints.create(davit.organization, draft, {})
 *
 * Several of them are replicas. `kill` ends one like `kill -9`; `stop` all of them before `davit.stop()`.
 */

import { parseConfig } from '../../src/cmd/config.ts'
import { createOrganizationAccounts } from '../../src/cmd/dependencies.ts'
import { createMetrics } from '../../src/cmd/metrics.ts'
import { installationKey } from '../../src/credentials/accounts/identity.ts'
import type { KubernetesClient } from '../../src/kube/resources.ts'
import { createSchemaValidator } from '../../src/lib/json-schema.ts'
import { createLogger } from '../../src/lib/log.ts'
import { createClock, createRandom } from '../../src/lib/time.ts'
import { createUrlPolicy } from '../../src/net/egress-policy.ts'
import { OpenDeliveryIndex } from '../../src/server/delivery-index/delivery-index.ts'
import {
  createServerServices,
  type ServerServices,
  type ServerServicesOptions,
} from '../../src/server/services.ts'
import { KubernetesLogStore } from '../../src/webhooks/log/kubernetes-store.ts'
import type { TestDavit } from './davit.ts'
import { FaultyApi } from './faulty-api.ts'
import { scopedApi } from './scoped-api.ts'

export type LiveServer = ServerServices & {
  /** The API of its calls, with scripted failures. */
  api: FaultyApi
  index: OpenDeliveryIndex
  kill(): void
}

export const LIVE_SERVER_LIMITS: ServerServicesOptions['limits'] = {
  endpointsPerOrganization: 500,
  credentialsPerOrganization: 500,
  intake: {
    pending: { organization: 20_000, all: 200_000 },
    openBytes: { organization: 64 * 1024 * 1024, all: 512 * 1024 * 1024 },
    writtenBytes: { organization: 2 ** 30, all: 2 ** 30 },
  },
  keys: { organization: 10_000, all: 10_000 },
}

const CONFIG = parseConfig({})
const CLOUD = CONFIG.cloud

export type LiveServerOptions = {
  leaseMs?: number
  /** Wraps the API client. */
  wrapApi?: (api: KubernetesClient) => KubernetesClient
}

let servers = 0

/** Resolves when it has read the existing objects. */
export async function startLiveServer(
  davit: Pick<TestDavit, 'api' | 'organization' | 'namespace' | 'clock' | 'logLines'>,
  limits: Partial<ServerServicesOptions['limits']> = {},
  { leaseMs = CONFIG.leaseMs, wrapApi = (bare) => bare }: LiveServerOptions = {},
): Promise<LiveServer> {
  servers += 1
  const api = new FaultyApi(wrapApi(scopedApi(davit.api, [davit.organization])))
  const { clock, namespace } = davit
  const random = createRandom()
  const log = createLogger({
    level: 'info',
    clock,
    destination: { write: (line: string) => void davit.logLines.push(line) },
  })
  const metrics = createMetrics({ version: '0.0.0-test' })
  const needs = { api, clock, random, log, metrics }
  // AWS uses real time, whatever the test does to its own.
  const aws = { clock: createClock(), random, metrics }
  const cloud = createOrganizationAccounts({ config: CLOUD, version: '0.0.0-test', ...aws })
  const store = new KubernetesLogStore({ ...needs, resources: api, namespace, watching: needs })
  const index = new OpenDeliveryIndex({ needs, store, maxEntries: 100_000 }).start()
  const services = createServerServices({
    ...needs,
    store,
    namespace,
    writer: `server-${servers}`,
    leaseMs,
    leaseClock: aws.clock,
    installationKey: await installationKey({ resources: api, namespace, random }),
    limits: { ...LIVE_SERVER_LIMITS, ...limits },
    cloud,
    parameterPrefix: CLOUD.parameterPrefix,
    index,
    validator: createSchemaValidator(),
    urlGuard: createUrlPolicy({ allowed: ['127.0.0.0/8', '::1/128'] }),
  })
  services.start()
  await Promise.all([services.ready, index.ready])
  const stop = async () => {
    await services.stop()
    await index.stop()
    cloud.close()
  }
  return {
    ...services,
    api,
    index,
    stop,
    kill: () => {
      api.die()
      void stop()
      api.bury()
    },
  }
}
