/** A controller in the test's process: the real parts, with a clock that tests step and logs that they read. */

import { parseConfig } from '../../src/cmd/config.ts'
import { createOrganizationAccounts } from '../../src/cmd/dependencies.ts'
import type { Metrics } from '../../src/cmd/metrics.ts'
import { type RunningController, startController } from '../../src/cmd/start-controller.ts'
import type { KubernetesClient } from '../../src/kube/resources.ts'
import { createSchemaValidator } from '../../src/lib/json-schema.ts'
import { createLogger } from '../../src/lib/log.ts'
import type { Mailer } from '../../src/lib/mail.ts'
import { type Clock, createClock, createRandom } from '../../src/lib/time.ts'
import { createUrlPolicy } from '../../src/net/egress-policy.ts'
import type { NameServer } from '../../src/net/resolver.ts'
import { createWebhookSender } from '../../src/webhooks/sender/sender.ts'
import { type SeenEvent, seeingRecorder } from './seen-events.ts'

export type TestControllerOptions = {
  /** The operator's namespace. */
  namespace: string
  replica: string
  api: KubernetesClient
  /** Where Events are written, if they are. */
  recordTo: KubernetesClient
  clock: Clock
  metrics: Metrics
  events: SeenEvent[]
  logLines: string[]
  env?: Record<string, string>
  mailer?: Mailer
  ca?: string
  nameServer?: NameServer
  recordEvents?: boolean
}

export async function startTestController(options: TestControllerOptions): Promise<RunningController> {
  const { namespace, replica, api, clock, metrics, events, logLines, mailer, nameServer } = options
  const config = parseConfig({
    DAVIT_NAMESPACE: namespace,
    DAVIT_REPLICA: replica,
    DAVIT_ALLOWED_NETWORKS: '127.0.0.0/8,::1/128',
    DAVIT_SHUTDOWN_TIMEOUT: '2s',
    ...options.env,
  })
  const log = createLogger({
    level: 'info',
    clock,
    destination: { write: (line: string) => void logLines.push(line) },
  })
  const write = options.recordEvents ? { api: options.recordTo, clock, log } : undefined
  // AWS, Leases and connections use real time, whatever the test does to its own.
  const real = createClock()
  const aws = { clock: real, random: createRandom(), metrics }
  return await startController({
    config,
    version: '0.0.0-test',
    leaseClock: real,
    dependencies: {
      api,
      clock,
      random: createRandom(),
      log,
      metrics,
      sender: createWebhookSender({
        networks: config.networks,
        clock: real,
        ca: options.ca,
        ...(nameServer ? { nameServer } : {}),
      }),
      urlGuard: createUrlPolicy(config.networks),
      events: seeingRecorder(events, write),
      validator: createSchemaValidator(),
      cloud: createOrganizationAccounts({ config: config.cloud, version: '0.0.0-test', ...aws }),
      mailer,
    },
  })
}
