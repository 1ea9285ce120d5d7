/**
 * The commands that the chart runs around an uninstall. `davit stop` runs before it, so that replicas end with the rights they have.
 * `davit cleanup` runs after it, so that no finalizer keeps an object or a namespace from being deleted, and no Lease stays.
 */

import { deployments, leases, pod, pods, REPLICA_LABEL, RESERVATION_LABEL } from '../apis/core-kinds.ts'
import { type ObjectMeta, objectMeta, type ResourceType } from '../apis/meta.ts'
import { PARAMETER_FINALIZER, registryCredentials, storedParameter } from '../apis/registry-credential.ts'
import { ACCOUNT_FINALIZER, secretsSettingsResource } from '../apis/secrets-settings.ts'
import {
  isApiError,
  type ListQuery,
  type RawObject,
  type ResourceReader,
  type ResourceWriter,
} from '../kube/client.ts'
import { listObjects } from '../kube/list.ts'
import { connectKubernetes, type KubernetesClient } from '../kube/resources.ts'
import type { Logger } from '../lib/log.ts'
import { type Clock, createClock, createRandom, sleep } from '../lib/time.ts'
import { type Environment, parseUninstallConfig, withoutUninstallVariables } from './config.ts'
import { type CommandSettings, runCommand } from './process.ts'

export type WaitForPodsOptions = {
  resources: ResourceReader
  clock: Clock
  query: ListQuery
  limitMs: number
}

const LOOK_EVERY_MS = 1000
const ENDED: readonly unknown[] = ['Succeeded', 'Failed']

/** @returns false if pods still run at the limit @throws ApiError */
export async function waitForPodsGone({
  resources,
  clock,
  query,
  limitMs,
}: WaitForPodsOptions): Promise<boolean> {
  const limit = clock.monotonic() + limitMs
  while (await anyRuns(resources, query)) {
    if (clock.monotonic() >= limit) return false
    await sleep(clock, LOOK_EVERY_MS)
  }
  return true
}

/** The object of an evicted pod stays, although the pod has ended. */
async function anyRuns(resources: ResourceReader, query: ListQuery): Promise<boolean> {
  for await (const item of listObjects(resources, pods, query))
    if (!ENDED.includes(pod.parse(item).status?.phase)) return true
  return false
}

export type StopOptions = Omit<WaitForPodsOptions, 'resources' | 'query'> & {
  resources: WaitForPodsOptions['resources'] & ResourceWriter
  log: Logger
  namespace: string
  deployments: readonly string[]
  /** Selects their pods. */
  labelSelector: string
}

/**
 * Helm deletes the ServiceAccounts at once, while pods run on for as long as a stop takes: without rights they could not record their
 * last attempts. A failure is only logged, and the uninstall goes on.
 * @returns whether all replicas have ended
 */
export async function scaleDownRelease(options: StopOptions): Promise<boolean> {
  const { resources, namespace, labelSelector, log } = options
  try {
    for (const name of options.deployments) await scaleDown(resources, { namespace, name })
    const gone = await waitForPodsGone({ ...options, query: { namespace, labelSelector } })
    if (!gone)
      log.warn('pods_still_running', 'pods are still running; they continue without permissions', {
        waitedMs: options.limitMs,
      })
    return gone
  } catch (error) {
    log.warn('scale_down_failed', 'failed to stop the replicas; they stop without permissions', { error })
    return false
  }
}

async function scaleDown(resources: ResourceWriter, ref: { namespace: string; name: string }): Promise<void> {
  try {
    await resources.patch(deployments, ref, { spec: { replicas: 0 } }, { subresource: 'scale' })
  } catch (error) {
    if (!isApiError(error, 'NotFound')) throw error
  }
}

const FINALIZERS: readonly { type: ResourceType; finalizer: string }[] = [
  { type: registryCredentials, finalizer: PARAMETER_FINALIZER },
  { type: secretsSettingsResource, finalizer: ACCOUNT_FINALIZER },
]

/** Objects may change between list and patch, and a controller that still ends may put a finalizer back. */
const MOST_ROUNDS = 10

/**
 * Objects that are not being deleted stay, and get their finalizer back from the next Davit. The others go while their parameters stay in
 * the account, which is logged.
 * @returns the number of objects @throws ApiError; Error if finalizers are still there after all rounds
 */
export async function removeFinalizers(
  resources: ResourceReader & ResourceWriter,
  log: Logger,
): Promise<number> {
  let released = 0
  for (let round = 0; round < MOST_ROUNDS; round += 1) {
    let found = 0
    for (const held of FINALIZERS) {
      for await (const object of objectsWithFinalizer(resources, held)) {
        found += 1
        if (await release(resources, held, object, log)) released += 1
      }
    }
    if (found === 0) return released
  }
  throw new Error('finalizers reappear; check whether a Davit controller is still running')
}

async function* objectsWithFinalizer(
  resources: ResourceReader,
  { type, finalizer }: (typeof FINALIZERS)[number],
): AsyncGenerator<RawObject> {
  try {
    for await (const object of listObjects(resources, type, {}))
      if (objectMeta.parse(object.metadata).finalizers?.includes(finalizer)) yield object
  } catch (error) {
    // Nothing of a kind whose CRD is gone.
    if (!isApiError(error, 'NotFound')) throw error
  }
}

async function release(
  resources: ResourceWriter,
  { type, finalizer }: (typeof FINALIZERS)[number],
  object: RawObject,
  log: Logger,
): Promise<boolean> {
  const { name, namespace, resourceVersion, finalizers, deletionTimestamp }: ObjectMeta = objectMeta.parse(
    object.metadata,
  )
  const rest = finalizers?.filter((each) => each !== finalizer) ?? []
  try {
    await resources.patch(type, { namespace, name }, { metadata: { resourceVersion, finalizers: rest } })
  } catch (error) {
    // The next round sees the change.
    if (isApiError(error, 'Conflict', 'NotFound')) return false
    throw error
  }
  const about = { kind: type.plural, namespace, name, ...leftBehind(object) }
  if (deletionTimestamp === undefined)
    log.info('finalizer_removed', 'removed the finalizer; the object is kept', about)
  else
    log.warn(
      'parameters_left_behind',
      'removed the finalizer; the object is deleted, but its parameters stay in the AWS account',
      about,
    )
  return true
}

/** Where the secret is, so that it can be removed by hand. */
function leftBehind({ status }: RawObject): { account?: string; region?: string; parameter?: string } {
  const { data } = storedParameter.safeParse((status as { parameter?: unknown } | undefined)?.parameter)
  return data ? { account: data.account, region: data.region, parameter: data.name } : {}
}

/** Removes the Leases of replicas and their reservations, since none is left to do so. @returns how many there were @throws ApiError */
export async function removeLeases(
  resources: ResourceReader & ResourceWriter,
  namespace: string,
): Promise<number> {
  let removed = 0
  for (const labelSelector of [REPLICA_LABEL, RESERVATION_LABEL])
    for await (const { metadata } of listObjects(resources, leases, { namespace, labelSelector })) {
      try {
        await resources.delete(leases, { namespace, name: metadata.name })
      } catch (error) {
        if (!isApiError(error, 'NotFound')) throw error
      }
      removed += 1
    }
  return removed
}

/** @returns the exit code: 0 even if replicas could not be stopped, since the uninstall must go on @throws ConfigError */
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
        log.info('release_scaled_down', 'scaled down the replicas', { stopped })
      }),
  )
}

/** @returns the exit code: 0 when no finalizer is left @throws ConfigError */
export function runCleanup(environment: Environment): Promise<number> {
  const { podSelector: labelSelector, limitMs } = parseUninstallConfig(environment)
  return runCommand(
    'cleanup',
    withoutUninstallVariables(environment),
    ({ config: { kubeconfig, namespace }, log }: CommandSettings) =>
      connected(kubeconfig, async (resources, clock) => {
        log.info('finalizers_removed', 'removed the finalizers of all objects', {
          released: await removeFinalizers(resources, log),
        })
        // A replica that still runs needs its Lease.
        const gone = await waitForPodsGone({ resources, clock, query: { namespace, labelSelector }, limitMs })
        if (gone)
          log.info('leases_removed', 'removed the Leases', {
            leases: await removeLeases(resources, namespace),
          })
        else log.warn('leases_kept', 'pods are still running; keeping their Leases')
      }),
  )
}

async function connected(
  kubeconfig: string | undefined,
  use: (resources: KubernetesClient, clock: Clock) => Promise<void>,
): Promise<void> {
  const clock = createClock()
  const api = await connectKubernetes({ clock, random: createRandom(), kubeconfigPath: kubeconfig })
  // Timers of the clock do not keep the process alive between two looks at pods.
  const alive = setInterval(() => undefined, 60_000)
  try {
    await use(api, clock)
  } finally {
    clearInterval(alive)
    await api.close()
  }
}
