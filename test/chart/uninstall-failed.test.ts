/** An uninstall that fails leaves no permissions of its Jobs behind, or those that the lines of the page delete. */

import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { failed } from '../../playground/bakes/run-statuses.ts'
import { requestApi } from '../../playground/control-plane/api-server.ts'
import { type ControlPlane, startControlPlane } from '../../playground/control-plane/control-plane.ts'
import { commandsOf } from '../e2e/page-script.ts'
import { BUILD_LIMIT_MS, findChartTools } from '../support/chart/chart-tools.ts'
import { CHART, HELMS, helm } from '../support/chart/helm.ts'
import { runHook } from '../support/chart/run-hook.ts'
import { until } from '../support/until.ts'

const run = promisify(execFile)

const TEST_LIMIT_MS = 300_000
const PAGE = new URL('../../docs/guides/uninstall.md', import.meta.url)
const SYSTEM = 'davit-system'
const RBAC = '/apis/rbac.authorization.k8s.io/v1'
const POLICIES = '/apis/admissionregistration.k8s.io/v1'
/** Where permissions are, and who has them. */
const PERMISSIONS = [
  `${RBAC}/clusterroles`,
  `${RBAC}/clusterrolebindings`,
  `${RBAC}/namespaces/${SYSTEM}/roles`,
  `${RBAC}/namespaces/${SYSTEM}/rolebindings`,
  `/api/v1/namespaces/${SYSTEM}/serviceaccounts`,
]

type List = { items: { metadata: { name: string } }[] }

let controlPlane: ControlPlane
let folder: string

beforeAll(async () => {
  await findChartTools()
  controlPlane = await startControlPlane()
  folder = dirname(controlPlane.kubeconfigPath)
  await call('POST', '/api/v1/namespaces', { metadata: { name: SYSTEM } })
}, BUILD_LIMIT_MS)

afterAll(() => controlPlane?.stop())

async function call(method: string, path: string, body?: object): Promise<{ status: number; body: unknown }> {
  const contentType = method === 'PATCH' ? 'application/merge-patch+json' : 'application/json'
  return await requestApi(controlPlane.access, { method, path, contentType, ...(body ? { body } : {}) })
}

/** Permissions that the Jobs of an uninstall have while they run. */
async function permissionsLeft(): Promise<string[]> {
  const lists = await Promise.all(PERMISSIONS.map(async (path) => (await call('GET', path)).body as List))
  return lists.flatMap(({ items }, index) =>
    items.flatMap(({ metadata: { name } }) =>
      /^davit-(stop|cleanup)$/.test(name) ? [`${PERMISSIONS[index]?.split('/').at(-1)} ${name}`] : [],
    ),
  )
}

/** As Kubernetes says it of a Job whose Pods do not start. */
async function fail(job: string): Promise<void> {
  const path = `/apis/batch/v1/namespaces/${SYSTEM}/jobs/${job}`
  await until(
    async () => (await call('GET', path)).status === 200 || undefined,
    () => `there is no Job ${job}`,
  )
  const { status } = await call('PATCH', `${path}/status`, { status: failed() })
  expect(status).toBe(200)
}

/** Of the page, the one that begins so. */
async function pasteBlock(first: string): Promise<void> {
  const blocks = commandsOf(await readFile(PAGE, 'utf8'))
  const block = blocks.find((each) => each.startsWith(first))
  if (block === undefined) throw new Error(`the page has no block that begins with ${first}`)
  const PATH = `${dirname(controlPlane.binaries.kubectl)}:${process.env.PATH}`
  const env = { ...process.env, PATH, KUBECONFIG: controlPlane.kubeconfigPath }
  await run('bash', ['-euo', 'pipefail', '-c', block], { env })
}

/** Rejects the Jobs with this name, as a policy or a quota of the cluster may. */
async function rejectJob(name: string): Promise<void> {
  const rule = { apiGroups: ['batch'], apiVersions: ['v1'], operations: ['CREATE'], resources: ['jobs'] }
  const validations = [{ expression: `object.metadata.name != '${name}'`, message: 'no Jobs today' }]
  const metadata = { name: 'no-jobs' }
  const spec = { matchConstraints: { resourceRules: [rule] }, validations }
  await call('POST', `${POLICIES}/validatingadmissionpolicies`, { metadata, spec })
  await call('POST', `${POLICIES}/validatingadmissionpolicybindings`, {
    metadata,
    spec: { policyName: 'no-jobs', validationActions: ['Deny'] },
  })
  const job = {
    metadata: { name },
    spec: { template: { spec: { restartPolicy: 'Never', containers: [{ name: 'a', image: 'a' }] } } },
  }
  await until(
    async () => {
      const path = `/apis/batch/v1/namespaces/${SYSTEM}/jobs?dryRun=All`
      return (await call('POST', path, job)).status === 422 || undefined
    },
    () => 'the policy is not in force',
  )
}

async function takeJobs(): Promise<void> {
  for (const plural of ['validatingadmissionpolicybindings', 'validatingadmissionpolicies'])
    await call('DELETE', `${POLICIES}/${plural}/no-jobs`)
}

describe.each(HELMS)('with %s', { timeout: TEST_LIMIT_MS }, (name) => {
  function release(...args: string[]): Promise<string> {
    return helm(name, [...args, '--namespace', SYSTEM], controlPlane.kubeconfigPath)
  }

  const uninstall = () => release('uninstall', 'davit')
  const hook = (job: string) => runHook({ controlPlane, namespace: SYSTEM, job, folder })

  test('a Job that fails at first keeps the release, and has no permissions any more', async () => {
    await release('install', 'davit', CHART)
    const [result] = await Promise.allSettled([uninstall(), fail('davit-stop')])
    expect(result?.status).toBe('rejected')
    expect(await permissionsLeft()).toEqual([])
    const deployment = `/apis/apps/v1/namespaces/${SYSTEM}/deployments/davit-controller`
    expect((await call('GET', deployment)).status).toBe(200)
  })

  test('a Job that fails at last has no permissions any more', async () => {
    // The one that failed before is not the one to run.
    await call('DELETE', `/apis/batch/v1/namespaces/${SYSTEM}/jobs/davit-stop?propagationPolicy=Background`)
    const [result] = await Promise.allSettled([uninstall(), hook('davit-stop'), fail('davit-cleanup')])
    expect(result?.status).toBe('rejected')
    expect(await permissionsLeft()).toEqual([])
  })

  test('a Job that the cluster rejects leaves permissions, which the lines of the page delete', async () => {
    await release('install', 'davit', CHART)
    await rejectJob('davit-cleanup')
    const [result] = await Promise.allSettled([uninstall(), hook('davit-stop')])
    expect(result?.status).toBe('rejected')
    expect(await permissionsLeft()).toContain('clusterrolebindings davit-cleanup')
    await pasteBlock('# The release is gone')
    expect(await permissionsLeft()).toEqual([])
    await takeJobs()
  })
})
