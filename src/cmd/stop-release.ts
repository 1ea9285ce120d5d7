/**
 * Ends the replicas of a release before it is uninstalled. Helm takes their accounts away at once, while pods go on for as long as a stop
 * waits: without rights they could not write what became of their last attempts.
 */
import { deployments } from '../apis/core-kinds.ts'
import { isApiError, type ResourceWriter } from '../kube/client.ts'
import type { Logger } from '../lib/ports-log.ts'
import { type WaitForPodsOptions, waitForPodsGone } from './pods-gone.ts'

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
