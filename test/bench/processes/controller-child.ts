import { createUrlGuard } from '../../../src/adapters/http/url-guard.ts'
import { createWebhookSender } from '../../../src/adapters/http/webhook-sender.ts'
import { connectKubernetes } from '../../../src/adapters/kubernetes/kubernetes-client.ts'
import { createClock } from '../../../src/adapters/system/clock.ts'
import { createLog } from '../../../src/adapters/system/log.ts'
import { createRandom } from '../../../src/adapters/system/random.ts'
import { parseConfig, readEnvironment } from '../../../src/config.ts'
import { startController } from '../../../src/roles/controller.ts'
import { serveCalls } from './remote-calls.ts'

/** Stands in for `davit controller`. */
export type ControllerCalls = {
  ready: (argument: null) => Promise<void>
  stats: (argument: null) => unknown
}

const nothing = () => undefined
const config = parseConfig(readEnvironment())
const clock = createClock()
const random = createRandom()
const log = createLog({ level: 'info', clock })
const api = await connectKubernetes({
  clock,
  random,
  ...(config.kubeconfig ? { kubeconfigPath: config.kubeconfig } : {}),
})
const controller = await startController({
  config,
  version: '0.1.0',
  world: {
    api,
    clock,
    random,
    log,
    metrics: {
      attempt: nothing,
      finished: nothing,
      started: nothing,
      segment: nothing,
      reconciled: nothing,
      watchRestarted: nothing,
    },
    sender: createWebhookSender({ allowedNetworks: config.allowedNetworks, clock }),
    urlGuard: createUrlGuard(config.allowedNetworks),
    events: { record: nothing },
    validator: { validate: () => [] },
  },
})
process.once('SIGTERM', () => void controller.stop().then(() => process.exit()))
serveCalls({
  ready: () => controller.ready,
  stats: () => ({
    ...controller.parts.plane.stats(),
    problems: controller.problems(),
    pending: controller.parts.plane.tally.total,
  }),
} satisfies ControllerCalls)
