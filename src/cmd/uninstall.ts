import { deployments, pod, pods } from '../apis/core-kinds.ts'
import { leases, REPLICA_LABEL } from '../apis/leases.ts'
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
import { type Clock, createClock, createRandom } from '../lib/clock.ts'
import type { Logger } from '../lib/log.ts'
import { sleep } from '../lib/sleep.ts'
import { type Environment, parseUninstallConfig, withoutUninstallVariables } from './config.ts'
import { type CommandSettings, runCommand } from './process.ts'

/** Waits for the end of pods, since what they hold is theirs until then. */

export type WaitForPodsOptions = {
  resources: ResourceReader
  clock: Clock
  /** Which pods. */
  query: ListQuery
  limitMs: number
}

const LOOK_EVERY_MS = 1000
const ENDED: readonly unknown[] = ['Succeeded', 'Failed']

/** @returns whether none runs any more; false when some still did at the limit @throws ApiError */
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

/** A pod that was evicted has ended, and its object stays. */
async function anyRuns(resources: ResourceReader, query: ListQuery): Promise<boolean> {
  for await (const item of listObjects(resources, pods, query))
    if (!ENDED.includes(pod.parse(item).status?.phase)) return true
  return false
}

/**
 * Ends the replicas of a release before it is uninstalled. Helm takes their accounts away at once, while pods go on for as long as a stop
 * waits: without rights they could not write what became of their last attempts.
 */

export type StopOptions = Omit<WaitForPodsOptions, 'resources' | 'query'> & {
  resources: WaitForPodsOptions['resources'] & ResourceWriter
  log: Logger
  namespace: string
  /** Names of Deployments. */
  deployments: readonly string[]
  /** Their pods. */
  labelSelector: string
}

/** An uninstall goes on without it, as it did before: what fails is said, and no error. @returns whether all have ended */
export async function scaleDownRelease(options: StopOptions): Promise<boolean> {
  const { resources, namespace, labelSelector, log } = options
  try {
    for (const name of options.deployments) await scaleDown(resources, { namespace, name })
    const gone = await waitForPodsGone({ ...options, query: { namespace, labelSelector } })
    if (!gone) log.warn('Pods still run, and go on without rights', { waitedMs: options.limitMs })
    return gone
  } catch (error) {
    log.warn('The replicas cannot be stopped, and end without rights', { error })
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

/**
 * Takes Davit's finalizers off what organizations have, so that it can be deleted while no Davit runs. What is not being deleted stays as it is,
 * and gets its finalizer back from the next Davit. What is goes, without its account having been asked: that is said.
 */

const FINALIZERS: readonly { type: ResourceType; finalizer: string }[] = [
  { type: registryCredentials, finalizer: PARAMETER_FINALIZER },
  { type: secretsSettingsResource, finalizer: ACCOUNT_FINALIZER },
]

/** Somebody may write an object between its list and its patch, or a controller that ends put a finalizer back. */
const MOST_ROUNDS = 10

/** @returns how many were let go @throws ApiError; Error when some are still held after all rounds */
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
  throw new Error('finalizers come back: does a controller of Davit run still?')
}

async function* objectsWithFinalizer(
  resources: ResourceReader,
  { type, finalizer }: (typeof FINALIZERS)[number],
): AsyncGenerator<RawObject> {
  let from: string | undefined
  do {
    const page = await listed(resources, type, from)
    for (const object of page.items)
      if (objectMeta.parse(object.metadata).finalizers?.includes(finalizer)) yield object
    from = page.continue
  } while (from !== undefined)
}

/** Of a kind that is not there any more, nothing is. */
async function listed(resources: ResourceReader, type: ResourceType, from: string | undefined) {
  try {
    return await resources.list(type, {}, from)
  } catch (error) {
    if (isApiError(error, 'NotFound')) return { items: [], continue: undefined }
    throw error
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
    // It has changed, which the next round sees, or is gone.
    if (isApiError(error, 'Conflict', 'NotFound')) return false
    throw error
  }
  const about = { kind: type.plural, namespace, name, ...leftBehind(object) }
  if (deletionTimestamp === undefined) log.info('The finalizer was taken off; the object stays', about)
  else log.warn('The finalizer was taken off, and the object goes; what it has in its account stays', about)
  return true
}

/** Where its secret is, for whoever removes it by hand. */
function leftBehind({ status }: RawObject): { account?: string; region?: string; parameter?: string } {
  const { data } = storedParameter.safeParse((status as { parameter?: unknown } | undefined)?.parameter)
  return data ? { account: data.account, region: data.region, parameter: data.name } : {}
}

/** Takes away the Leases of replicas that are gone. Other replicas would: here none is left. */

/** @returns how many there were @throws ApiError */
export async function removeLeases(
  resources: ResourceReader & ResourceWriter,
  namespace: string,
): Promise<number> {
  let removed = 0
  for await (const { metadata } of listObjects(resources, leases, {
    namespace,
    labelSelector: REPLICA_LABEL,
  })) {
    await remove(resources, { namespace, name: metadata.name })
    removed += 1
  }
  return removed
}

async function remove(resources: ResourceWriter, ref: { namespace: string; name: string }): Promise<void> {
  try {
    await resources.delete(leases, ref)
  } catch (error) {
    if (!isApiError(error, 'NotFound')) throw error
  }
}

/**
 * The commands that the chart runs around its uninstall: `davit stop` before, so that replicas end with the rights they have, and
 * `davit cleanup` after, so that nothing of Davit keeps an object or a namespace from going, and no Lease stays.
 */

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
