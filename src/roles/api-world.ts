/** The world that the facade acts on, from its settings: each need with its adapter. */
import { createUrlPolicy } from '../adapters/http/url-guard.ts'
import { connectKubernetes } from '../adapters/kubernetes/kubernetes-client.ts'
import { connectReviews } from '../adapters/kubernetes/reviews.ts'
import { createMetrics, type Metrics } from '../adapters/prometheus/metrics.ts'
import { watchCertificateFiles } from '../adapters/system/certificate-files.ts'
import { createClock } from '../adapters/system/clock.ts'
import type { StructuredLogger } from '../adapters/system/log.ts'
import { createRandom } from '../adapters/system/random.ts'
import { createSchemaValidator } from '../adapters/system/schema-validator.ts'
import { createSyncedClock } from '../adapters/system/synced-clock.ts'
import type { Config } from '../config.ts'
import type { AccessReviewer } from '../ports/access-review.ts'
import type { CertificateSource } from '../ports/certificate.ts'
import type { Clock, Random } from '../ports/clock.ts'
import type { ParameterListing, ParameterStore } from '../ports/cloud-accounts.ts'
import type { ResourceReader, ResourceWriter, WatchSource } from '../ports/kubernetes.ts'
import type { SchemaValidator } from '../ports/schema-validator.ts'
import type { TokenReviewer } from '../ports/token-review.ts'
import type { UrlPolicy } from '../ports/url-guard.ts'
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
