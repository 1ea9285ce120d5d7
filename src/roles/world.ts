/** The world that the controller acts on, from its settings: each need with its adapter. */
import { readFile } from 'node:fs/promises'
import { createUrlPolicy } from '../adapters/http/url-guard.ts'
import { createWebhookSender } from '../adapters/http/webhook-sender.ts'
import { createEventRecorder } from '../adapters/kubernetes/event-recorder.ts'
import { connectKubernetes } from '../adapters/kubernetes/kubernetes-client.ts'
import { createMetrics, type Metrics } from '../adapters/prometheus/metrics.ts'
import { createMailer } from '../adapters/smtp/mailer.ts'
import { createClock } from '../adapters/system/clock.ts'
import type { StructuredLogger } from '../adapters/system/log.ts'
import { createRandom } from '../adapters/system/random.ts'
import { createSchemaValidator } from '../adapters/system/schema-validator.ts'
import { createSyncedClock } from '../adapters/system/synced-clock.ts'
import type { Config, Secrets } from '../config.ts'
import type { Clock } from '../ports/clock.ts'
import { createOrganizationAccounts } from './organization-accounts.ts'
import type { ControllerDependencies } from './world-types.ts'

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
