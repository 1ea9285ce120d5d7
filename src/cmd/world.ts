/** The world that the controller acts on, from its settings: each need with its adapter. */
import { readFile } from 'node:fs/promises'
import { connectKubernetes } from '../kube/kubernetes-client.ts'
import { createEventRecorder } from '../kube/recorder.ts'
import { createSyncedClock } from '../lib/clock.ts'
import { createSchemaValidator } from '../lib/json-schema.ts'
import { createMailer } from '../lib/mail.ts'
import type { Clock } from '../lib/ports-clock.ts'
import { createRandom } from '../lib/random.ts'
import { createClock } from '../lib/system-clock.ts'
import type { StructuredLogger } from '../lib/system-log.ts'
import { createUrlPolicy } from '../net/egress-policy.ts'
import { createWebhookSender } from '../webhooks/sender/sender.ts'
import type { Config, Secrets } from './config.ts'
import { createMetrics, type Metrics } from './metrics.ts'
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
