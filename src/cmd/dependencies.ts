/** The outside world of `davit controller` and `davit api`, made from the settings: clients, clock, log, metrics. */

import { readFile } from 'node:fs/promises'
import type { BakeMetrics } from '../boxes/controller/gather.ts'
import { CloudAccounts } from '../credentials/aws/cloud-accounts.ts'
import { sessionName, sessionPolicy, sessionTags } from '../credentials/aws/policies.ts'
import type { AccountProbes, ParameterListing, ParameterStore } from '../credentials/cloud.ts'
import type { ResourceReader, ResourceWriter, WatchSource } from '../kube/client.ts'
import { AggregatingRecorder, type EventRecorder } from '../kube/recorder.ts'
import { connectKubernetes } from '../kube/resources.ts'
import { type AccessReviewer, connectReviews, type TokenReviewer } from '../kube/reviews.ts'
import type { TokenSignatures } from '../kube/token-signatures.ts'
import { createSchemaValidator, type SchemaValidator } from '../lib/json-schema.ts'
import type { Logger, StructuredLogger } from '../lib/log.ts'
import { createMailer, type Mailer } from '../lib/mail.ts'
import type {
  CloudMetrics,
  CredentialMetrics,
  DeliveryMetrics,
  LogMetrics,
  MailMetrics,
  RuntimeMetrics,
} from '../lib/metrics.ts'
import { FairRateLimiters } from '../lib/rate-limit.ts'
import { type Clock, createClock, createRandom, createSyncedClock, type Random } from '../lib/time.ts'
import { createUrlPolicy, type UrlPolicy } from '../net/egress-policy.ts'
import { type CertificateSource, watchCertificateFiles } from '../server/http/server.ts'
import type { WebhookSender } from '../webhooks/sender/send-failures.ts'
import { createWebhookSender } from '../webhooks/sender/sender.ts'
import type { Config, Secrets } from './config.ts'
import { createMetrics, type Metrics } from './metrics.ts'

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

export type ControllerDependenciesOptions = {
  config: Config
  secrets: Secrets
  log: StructuredLogger
  version: string
  /** For tests that step time. Default: the machine's. */
  clock?: Clock
}

/** @throws Error without a connection to a cluster, or if a file of the settings cannot be read */
export async function createControllerDependencies({
  config,
  secrets,
  log,
  version,
  clock: unsynced = createClock(),
}: ControllerDependenciesOptions): Promise<
  ControllerDependencies & { metrics: Metrics; close(): Promise<void> }
> {
  const clock = createSyncedClock(unsynced)
  const random = createRandom()
  const metrics = createMetrics({ version, role: 'controller' })
  const api = await connectKubernetes({ clock, random, metrics, ...connectionOf(config, clock) })
  const ca = config.extraCaFile === undefined ? undefined : await readFile(config.extraCaFile, 'utf8')
  const sender = createWebhookSender({ networks: config.networks, clock, ca })
  const cloud = createOrganizationAccounts({ config: config.cloud, version, clock, random, metrics })
  const events = new AggregatingRecorder({ api, reporter: config.replica, clock, random, log, metrics })
  const { smtpUrl } = secrets
  const { smtpFrom = '', smtpEhloName } = config
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
    mailer:
      smtpUrl === undefined
        ? undefined
        : createMailer({ url: smtpUrl, from: smtpFrom, ehloName: smtpEhloName, ca }),
    close: async () => {
      await events.drain()
      await sender.close()
      cloud.close()
      await api.close()
    },
  }
}

export type ApiDependencies = {
  api: ResourceReader & ResourceWriter & WatchSource
  tokens: TokenReviewer
  signatures: TokenSignatures
  access: AccessReviewer
  clock: Clock
  random: Random
  log: StructuredLogger
  metrics: Metrics
  validator: SchemaValidator
  urlGuard: UrlPolicy
  /** The accounts of organizations. */
  cloud: ParameterStore & ParameterListing
  /** Absent if the REST API is served by plain http. */
  certificate: CertificateSource | undefined
  close(): Promise<void>
}

/**
 * REST servers must agree on whether an idempotency key has expired, and sign nothing with their time. A server whose clock is a day
 * ahead, even for a moment, would consider all keys expired and repeat the requests that were made with them.
 */
const FARTHEST_AHEAD_MS = 60_000

/** @throws Error without a connection to a cluster, or if the certificate cannot be read */
export async function createApiDependencies(
  config: Config,
  log: StructuredLogger,
  version: string,
): Promise<ApiDependencies> {
  const { certificate: files } = config.api
  const certificate = files && (await watchCertificateFiles(files, { log }))
  const clock = createSyncedClock(createClock(), { aheadMs: FARTHEST_AHEAD_MS })
  const random = createRandom()
  const metrics = createMetrics({ version, role: 'api' })
  const connection = { clock, random, metrics, ...connectionOf(config, clock) }
  const api = await connectKubernetes(connection)
  const reviews = await connectReviews(connection)
  const cloud = createOrganizationAccounts({ config: config.cloud, version, clock, random, metrics })
  return {
    api,
    tokens: reviews.tokens,
    signatures: reviews.signatures,
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

function connectionOf({ kubeconfig }: Config, clock: ReturnType<typeof createSyncedClock>) {
  return { onDate: clock.observeServerDate, kubeconfigPath: kubeconfig }
}

export type OrganizationAccountsOptions = {
  config: Config['cloud']
  version: string
  clock: Clock
  random: Random
  metrics: CloudMetrics
}

/** A listing is one call for all credentials of an organization; AWS allows less than one a second. */
const LISTINGS = { perSecond: 0.5, burst: 2 }
const WRITE_BURST = 3
const QUEUES = { maxKeys: 10_000, maxWaiting: 100_000, maxWaitingOfFlow: 10_000 }

/** The accounts of organizations at AWS, with Davit's session names, policies and rate limits. */
export function createOrganizationAccounts(options: OrganizationAccountsOptions): CloudAccounts {
  const { config, version, ...machine } = options
  const writes = { perSecond: config.writesPerSecond, burst: WRITE_BURST }
  const writeTurns = new FairRateLimiters(machine.clock, { ...writes, ...QUEUES })
  const listTurns = new FairRateLimiters(machine.clock, { ...LISTINGS, ...QUEUES })
  return new CloudAccounts({
    ...machine,
    userAgent: `davit/${version}`,
    sessionRules: (access, purpose) => ({
      name: sessionName(access.organization),
      policy: JSON.stringify(sessionPolicy(access, config.parameterPrefix, purpose)),
      tags: sessionTags(access),
    }),
    writeTurns: (key) => writeTurns.forKey(key),
    listTurns: (key) => listTurns.forKey(key),
  })
}
