import { readFile } from 'node:fs/promises'
import { type CloudAccounts, createCloudAccounts } from '../credentials/aws/cloud-accounts.ts'
import { sessionName, sessionPolicy, sessionTags } from '../credentials/aws/policies.ts'
import type { SessionRules } from '../credentials/aws/sessions.ts'
import type { AccountProbes, ParameterListing, ParameterStore } from '../credentials/cloud.ts'
import type { ResourceReader, ResourceWriter, WatchSource } from '../kube/client.ts'
import { createEventRecorder, type EventRecorder } from '../kube/recorder.ts'
import { connectKubernetes } from '../kube/resources.ts'
import { type AccessReviewer, connectReviews, type TokenReviewer } from '../kube/reviews.ts'
import { type Clock, createClock, createRandom, createSyncedClock, type Random } from '../lib/clock.ts'
import { createSchemaValidator, type SchemaValidator } from '../lib/json-schema.ts'
import type { Logger, StructuredLogger } from '../lib/log.ts'
import { createMailer, type Mailer } from '../lib/mail.ts'
import type {
  BakeMetrics,
  CloudMetrics,
  CredentialMetrics,
  DeliveryMetrics,
  LogMetrics,
  MailMetrics,
  RuntimeMetrics,
} from '../lib/metrics.ts'
import { FairRateLimiters } from '../lib/rate-limit.ts'
import { createUrlPolicy, type UrlPolicy } from '../net/egress-policy.ts'
import { type CertificateSource, watchCertificateFiles } from '../server/http/certificate.ts'
import type { WebhookSender } from '../webhooks/sender/outcome.ts'
import { createWebhookSender } from '../webhooks/sender/sender.ts'
import type { Config, Secrets } from './config.ts'
import { createMetrics, type Metrics } from './metrics.ts'

/** The accounts of organizations at AWS, on Davit's terms. */

export type OrganizationAccountsOptions = {
  config: Config['cloud']
  version: string
  clock: Clock
  random: Random
  metrics: CloudMetrics
}

/** A listing is one call for all credentials of an organization; AWS takes less than one a second. */
const LISTINGS = { perSecond: 0.5, burst: 2 }
const WRITE_BURST = 3
const QUEUES = { maxKeys: 10_000, maxWaiting: 100_000, maxWaitingOfFlow: 10_000 }

export function createOrganizationAccounts(options: OrganizationAccountsOptions): CloudAccounts {
  const { config, version, clock, random, metrics } = options
  const writes = { perSecond: config.writesPerSecond, burst: WRITE_BURST }
  const writeTurns = new FairRateLimiters(clock, { ...writes, ...QUEUES })
  const listTurns = new FairRateLimiters(clock, { ...LISTINGS, ...QUEUES })
  return createCloudAccounts({
    clock,
    random,
    metrics,
    userAgent: `davit/${version}`,
    sessionRules: sessionRules(config.parameterPrefix),
    writeTurns: (key) => writeTurns.forKey(key),
    listTurns: (key) => listTurns.forKey(key),
  })
}

function sessionRules(prefix: string): SessionRules {
  return (access, purpose) => ({
    name: sessionName(access.organization),
    policy: JSON.stringify(sessionPolicy(access, prefix, purpose)),
    tags: sessionTags(access),
  })
}

/** What the world provides. */
export type ControllerDependencies = {
  api: ResourceReader & ResourceWriter & WatchSource
  clock: Clock
  random: Random
  log: Logger
  metrics: DeliveryMetrics & LogMetrics & RuntimeMetrics & CredentialMetrics & BakeMetrics & MailMetrics
  /** The accounts of organizations. */
  cloud: ParameterStore & ParameterListing & AccountProbes
  sender: WebhookSender
  urlGuard: UrlPolicy
  events: EventRecorder
  validator: SchemaValidator
  mailer?: Mailer | undefined
}

/** The world that the controller acts on, from its settings: each need with its adapter. */

export type ControllerDependenciesOptions = {
  config: Config
  secrets: Secrets
  log: StructuredLogger
  version: string
  /** Tests step time; absent: the machine's. */
  clock?: Clock
}

/** @throws Error when there is no way to a cluster, or a file of the settings cannot be read */
export async function createControllerDependencies(
  options: ControllerDependenciesOptions,
): Promise<ControllerDependencies & { metrics: Metrics; close(): Promise<void> }> {
  const { config, secrets, log } = options
  const clock = createSyncedClock(options.clock ?? createClock())
  const random = createRandom()
  const metrics = createMetrics({ version: options.version, role: 'controller' })
  const api = await connectKubernetes({
    clock,
    random,
    metrics,
    onDate: clock.observeServerDate,
    ...(config.kubeconfig === undefined ? {} : { kubeconfigPath: config.kubeconfig }),
  })
  const ca = config.extraCaFile === undefined ? undefined : await readFile(config.extraCaFile, 'utf8')
  const sender = createWebhookSender({ networks: config.networks, clock, ca })
  const cloud = createOrganizationAccounts({
    config: config.cloud,
    version: options.version,
    clock,
    random,
    metrics,
  })
  const events = createEventRecorder({ api, reporter: config.replica, clock, random, log })
  const mailer =
    secrets.smtpUrl === undefined
      ? undefined
      : createMailer({ url: secrets.smtpUrl, from: config.smtpFrom ?? '', ca })
  return {
    api,
    clock,
    random,
    log,
    metrics,
    cloud,
    sender,
    urlGuard: createUrlPolicy(config.networks),
    events,
    validator: createSchemaValidator(),
    mailer,
    close: async () => {
      await events.drain()
      await sender.close()
      cloud.close()
      await api.close()
    },
  }
}

/** The world that the facade acts on, from its settings: each need with its adapter. */

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
