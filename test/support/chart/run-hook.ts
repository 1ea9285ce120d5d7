/** A bare control plane runs no Jobs: this does what the pod of one of the chart's Jobs would do, with its account. */

import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { writeKubeconfig } from '../../../playground/api-keys.ts'
import { complete } from '../../../playground/bakes/run-statuses.ts'
import { requestApi } from '../../../playground/control-plane/api-server.ts'
import type { ControlPlane } from '../../../playground/control-plane/control-plane.ts'
import { until } from '../until.ts'

const run = promisify(execFile)

const MAIN = fileURLToPath(new URL('../../../src/main.ts', import.meta.url))
/** Helm deletes everything else first. */
const JOB_LIMIT_MS = 120_000

type Variable = { name: string; value?: string }
type PodSpec = { serviceAccountName: string; containers: { args: string[]; env: Variable[] }[] }
type Job = { spec: { template: { spec: PodSpec } } }

export type HookOptions = {
  controlPlane: ControlPlane
  /** Namespace of the release. */
  namespace: string
  /** Name of the Job; waits until it exists. */
  job: string
  /** For files. */
  folder: string
}

/** @returns its output when the Job is complete @throws Error if its command fails */
export async function runHook({ controlPlane, namespace, job, folder }: HookOptions): Promise<string> {
  const { access } = controlPlane
  const path = `/apis/batch/v1/namespaces/${namespace}/jobs/${job}`
  const { spec } = await until(
    async () => {
      const { status, body } = await requestApi(access, { method: 'GET', path })
      return status === 200 ? (body as Job) : undefined
    },
    () => `there is no Job ${job}`,
    JOB_LIMIT_MS,
  )
  const { serviceAccountName: name, containers } = spec.template.spec
  const [container] = containers
  // A variable without a value comes from the namespace.
  const given = (container?.env ?? []).map(({ name: key, value }) => [key, value ?? namespace])
  const KUBECONFIG = join(folder, `${job}.kubeconfig`)
  await writeKubeconfig(KUBECONFIG, access, { namespace, name })
  const env = { PATH: process.env.PATH, ...Object.fromEntries(given), KUBECONFIG }
  const { stdout } = await run(process.execPath, [MAIN, ...(container?.args ?? [])], { env })
  const contentType = 'application/merge-patch+json'
  const body = { status: complete() }
  await requestApi(access, { method: 'PATCH', path: `${path}/status`, contentType, body })
  return stdout
}
