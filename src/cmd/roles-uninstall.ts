/**
 * The commands that the chart runs around its uninstall: `davit stop` before, so that replicas end with the rights they have, and
 * `davit cleanup` after, so that nothing of Davit keeps an object or a namespace from going, and no Lease stays.
 */
import { connectKubernetes, type KubernetesClient } from '../kube/kubernetes-client.ts'
import type { Clock } from '../lib/ports-clock.ts'
import { createRandom } from '../lib/random.ts'
import { createClock } from '../lib/system-clock.ts'
import type { Environment } from './config.ts'
import { parseUninstallConfig, withoutUninstallVariables } from './config-uninstall.ts'
import { waitForPodsGone } from './pods-gone.ts'
import { removeLeases } from './remove-leases.ts'
import { type CommandSettings, runCommand } from './run-role.ts'
import { scaleDownRelease } from './stop-release.ts'
import { removeFinalizers } from './uninstall.ts'

const ALIVE_MS = 60_000

/** @returns the exit code: 0 also where they could not be stopped, which keeps nobody from uninstalling @throws ConfigError */
export function runStop(environment: Environment): Promise<number> {
  const { podSelector: labelSelector, ...release } = parseUninstallConfig(environment)
  return runCommand(
    'stop',
    withoutUninstallVariables(environment),
    ({ config: { kubeconfig, namespace }, log }) =>
      connected(kubeconfig, async (resources, clock) => {
        const stopped = await scaleDownRelease({
          resources,
          clock,
          log,
          namespace,
          labelSelector,
          ...release,
        })
        log.info('Replicas were told to end', { stopped })
      }),
  )
}

/** @returns the exit code: 0 when nothing is held any more @throws ConfigError */
export function runCleanup(environment: Environment): Promise<number> {
  const { podSelector: labelSelector, limitMs } = parseUninstallConfig(environment)
  return runCommand(
    'cleanup',
    withoutUninstallVariables(environment),
    ({ config: { kubeconfig, namespace }, log }: CommandSettings) =>
      connected(kubeconfig, async (resources, clock) => {
        log.info('Objects were let go', { released: await removeFinalizers(resources, log) })
        // A replica that still runs has what its Lease says.
        const gone = await waitForPodsGone({ resources, clock, query: { namespace, labelSelector }, limitMs })
        if (gone) log.info('Leases were taken away', { leases: await removeLeases(resources, namespace) })
        else log.warn('Pods still run; their Leases stay')
      }),
  )
}

async function connected(
  kubeconfig: string | undefined,
  use: (resources: KubernetesClient, clock: Clock) => Promise<void>,
): Promise<void> {
  const world = { clock: createClock(), random: createRandom() }
  const path = kubeconfig === undefined ? {} : { kubeconfigPath: kubeconfig }
  const api = await connectKubernetes({ ...world, ...path })
  // Timers of the clock keep no process alive, and between two looks at pods there is nothing else.
  const alive = setInterval(() => undefined, ALIVE_MS)
  try {
    await use(api, world.clock)
  } finally {
    clearInterval(alive)
    await api.close()
  }
}
