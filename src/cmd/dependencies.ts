/** The world that the facade acts on, from its settings: each need with its adapter. */

import type { ParameterListing, ParameterStore } from '../credentials/cloud.ts'
import type { AccessReviewer } from '../kube/access-review.ts'
import type { ResourceReader, ResourceWriter, WatchSource } from '../kube/client.ts'
import { connectKubernetes } from '../kube/kubernetes-client.ts'
import { connectReviews } from '../kube/kubernetes-reviews.ts'
import type { TokenReviewer } from '../kube/token-review.ts'
import { createSyncedClock } from '../lib/clock.ts'
import { createSchemaValidator } from '../lib/json-schema.ts'
import type { Clock, Random } from '../lib/ports-clock.ts'
import { createRandom } from '../lib/random.ts'
import type { SchemaValidator } from '../lib/schema-validator.ts'
import { createClock } from '../lib/system-clock.ts'
import type { StructuredLogger } from '../lib/system-log.ts'
import { createUrlPolicy } from '../net/egress-policy.ts'
import type { UrlPolicy } from '../net/url-guard.ts'
import { watchCertificateFiles } from '../server/http/certificate.ts'
import type { CertificateSource } from '../server/http/ports-certificate.ts'
import type { Config } from './config.ts'
import { createMetrics, type Metrics } from './metrics.ts'
import { createOrganizationAccounts } from './organization-accounts.ts'

/** What the world provides. */
export type ApiDependencies = {
  api: ResourceReader & ResourceWriter & WatchSource
  tokens: TokenReviewer
  access: AccessReviewer
  clock: Clock
  random: Random
  log: StructuredLogger
  metrics: Metrics
  validator: SchemaValidator
  urlGuard: UrlPolicy
  /** The accounts of organizations. */
  cloud: ParameterStore & ParameterListing
  /** Absent: the REST API is served by plain http. */
  certificate: CertificateSource | undefined
  close(): Promise<void>
}

/**
 * Facades have to see alike whether an Idempotency-Key has expired, and sign nothing with their time. One whose clock is set a day ahead, if
 * only for a moment, would take every key for expired, and do again what was asked for with it.
 */
const FARTHEST_AHEAD_MS = 60_000

export type ApiDependenciesOptions = { config: Config; log: StructuredLogger; version: string }

/** @throws Error when there is no way to a cluster, or the certificate cannot be read */
export async function createApiDependencies({
  config,
  log,
  version,
}: ApiDependenciesOptions): Promise<ApiDependencies> {
  const { certificate: files } = config.api
  const certificate = files && (await watchCertificateFiles(files, { log }))
  const clock = createSyncedClock(createClock(), { aheadMs: FARTHEST_AHEAD_MS })
  const random = createRandom()
  const metrics = createMetrics({ version, role: 'api' })
  const connection = {
    clock,
    random,
    metrics,
    onDate: clock.observeServerDate,
    ...(config.kubeconfig === undefined ? {} : { kubeconfigPath: config.kubeconfig }),
  }
  const api = await connectKubernetes(connection)
  const reviews = await connectReviews(connection)
  const cloud = createOrganizationAccounts({ config: config.cloud, version, clock, random, metrics })
  return {
    api,
    tokens: reviews.tokens,
    access: reviews.access,
    clock,
    random,
    log,
    metrics,
    validator: createSchemaValidator(),
    urlGuard: createUrlPolicy(config.networks),
    cloud,
    certificate,
    close: async () => {
      certificate?.close()
      cloud.close()
      await Promise.all([reviews.close(), api.close()])
    },
  }
}
