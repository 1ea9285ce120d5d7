/** A controller in the test's process: the real parts of one, with a clock that tests step and logs that they read. */
import type { NameServer } from '../../src/adapters/http/resolver.ts'
import { createUrlPolicy } from '../../src/adapters/http/url-guard.ts'
import { createWebhookSender } from '../../src/adapters/http/webhook-sender.ts'
import type { KubernetesClient } from '../../src/adapters/kubernetes/kubernetes-client.ts'
import type { Metrics } from '../../src/adapters/prometheus/metrics.ts'
import { createClock } from '../../src/adapters/system/clock.ts'
import { createLogger } from '../../src/adapters/system/log.ts'
import { createRandom } from '../../src/adapters/system/random.ts'
import { createSchemaValidator } from '../../src/adapters/system/schema-validator.ts'
import { parseConfig } from '../../src/config.ts'
import type { Clock } from '../../src/ports/clock.ts'
import type { Mailer } from '../../src/ports/mailer.ts'
import { type RunningController, startController } from '../../src/roles/controller.ts'
import { createOrganizationAccounts } from '../../src/roles/organization-accounts.ts'
import { type SeenEvent, seeingRecorder } from './seen-events.ts'

export type TestControllerOptions = {
  /** The operator's. */
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
    DAVIT_DRAIN_SECONDS: '2',
    ...options.env,
  })
  const log = createLogger({
    level: 'info',
    clock,
    destination: { write: (line: string) => void logLines.push(line) },
  })
  const write = options.recordEvents ? { api: options.recordTo, clock, log } : undefined
  // AWS, Leases and connections live in real time, whatever the test makes of its own.
  const real = createClock()
  const aws = { clock: real, random: createRandom(), metrics }
  return await startController({
    config,
    version: '0.0.0-test',
    leaseClock: real,
    world: {
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
