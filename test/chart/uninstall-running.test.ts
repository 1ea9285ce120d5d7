/**
 * `helm uninstall` while Davit works: replicas end with the rights that they have, nothing is sent again later, and no Lease stays. The Jobs
 * that see to it have the rights that they need, and no other.
 */

import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { stringify } from 'yaml'
import { writeKubeconfig } from '../../playground/api-keys.ts'
import { requestApi } from '../../playground/control-plane/api-server.ts'
import { type ControlPlane, startControlPlane } from '../../playground/control-plane/control-plane.ts'
import { freePort } from '../../playground/free-port.ts'
import { PARAMETER_FINALIZER } from '../../src/apis/registry-credential.ts'
import { ACCOUNT_FINALIZER } from '../../src/apis/secrets-settings.ts'
import { nameOfRight, type Right, rightsIn } from '../../tools/docgen/rights/rights.ts'
import { goodCredential } from '../contract/samples/registry-credential.ts'
import { goodSettings } from '../contract/samples/secrets-settings.ts'
import { readAuditTrail } from '../support/audit-trail.ts'
import { BUILD_LIMIT_MS, findChartTools } from '../support/chart/chart-tools.ts'
import { CHART, helm, template } from '../support/chart/helm.ts'
import { runHook } from '../support/chart/run-hook.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { RoleProcess } from '../support/role-process.ts'
import { covers } from '../support/shipped-rights.ts'
import { until } from '../support/until.ts'

const TEST_LIMIT_MS = 300_000
const SCALE_LIMIT_MS = 120_000
const SYSTEM = 'davit-system'
const DAVIT = '/apis/davit.dev/v1alpha1/namespaces/acme'
const DEPLOYMENTS = `/apis/apps/v1/namespaces/${SYSTEM}/deployments`
const LEASES = `/apis/coordination.k8s.io/v1/namespaces/${SYSTEM}/leases?labelSelector=davit.dev/replica-of`
const TYPE = 'environment.started'
const ANSWER_AFTER_MS = 4000

type Role = 'controller' | 'api'
type Deployment = { spec: { template: { metadata: { labels: object } } } }
type List = { items: { metadata: { name: string } }[] }

let controlPlane: ControlPlane
let folder: string
let receiver: Receiver

beforeAll(async () => {
  await findChartTools()
  folder = await mkdtemp(join(tmpdir(), 'davit-uninstall-'))
  receiver = await startReceiver()
  controlPlane = await startControlPlane({ audit: { logPath: trail() } })
  for (const [name, labels] of [
    [SYSTEM, {}],
    ['acme', { 'davit.dev/organization': 'true' }],
  ] as const)
    await call('POST', '/api/v1/namespaces', { metadata: { name, labels } })
}, BUILD_LIMIT_MS)

afterAll(async () => {
  await controlPlane?.stop()
  await receiver?.close()
  await rm(folder, { recursive: true, force: true })
})

function trail(): string {
  return join(folder, 'audit.log')
}

function release(...args: string[]): Promise<string> {
  return helm('helm4', [...args, '--namespace', SYSTEM], controlPlane.kubeconfigPath)
}

async function call<T>(method: string, path: string, body?: object): Promise<T> {
  const contentType = method === 'PATCH' ? 'application/merge-patch+json' : 'application/json'
  const answer = await requestApi(controlPlane.access, {
    method,
    path,
    contentType,
    ...(body ? { body } : {}),
  })
  expect(answer.status, `${method} ${path}: ${JSON.stringify(answer.body)}`).toBeLessThan(300)
  return answer.body as T
}

async function kubeconfigOf(account: string, name: string): Promise<string> {
  const path = join(folder, `${name}.kubeconfig`)
  await writeKubeconfig(path, controlPlane.access, { namespace: SYSTEM, name: account })
  return path
}

/** A pod without a node, and its process. */
async function start(role: Role, pod: string): Promise<RoleProcess> {
  const { spec } = await call<Deployment>('GET', `${DEPLOYMENTS}/davit-${role}`)
  const { labels } = spec.template.metadata
  const container = { name: 'davit', image: 'davit' }
  const metadata = { name: pod, labels }
  await call('POST', `/api/v1/namespaces/${SYSTEM}/pods`, {
    metadata,
    spec: { serviceAccountName: `davit-${role}`, containers: [container] },
  })
  const started = new RoleProcess({
    role,
    kubeconfigPath: await kubeconfigOf(`davit-${role}`, pod),
    namespace: SYSTEM,
    replica: pod,
    opsPort: await freePort(),
    logPath: logOf(pod),
    settings: role === 'api' ? { DAVIT_API_ADDRESS: `127.0.0.1:${await freePort()}` } : {},
  })
  await started.untilReady()
  return started
}

function logOf(pod: string): string {
  return join(folder, `${pod}.log`)
}

async function removePod(pod: string): Promise<void> {
  await call('DELETE', `/api/v1/namespaces/${SYSTEM}/pods/${pod}?gracePeriodSeconds=0`)
}

/** Acts like the Deployment controller and a kubelet: at zero replicas each pod is asked to end, and is gone when it has. */
async function endPods(role: Role, pods: Readonly<Record<string, RoleProcess>>): Promise<(number | null)[]> {
  const path = `${DEPLOYMENTS}/davit-${role}`
  const scaledDown = async () => {
    const { status, body } = await requestApi(controlPlane.access, { method: 'GET', path })
    const { spec } = body as { spec?: { replicas: number } }
    return status === 404 || spec?.replicas === 0 || undefined
  }
  await until(scaledDown, () => `the ${role} is not scaled down`, SCALE_LIMIT_MS)
  return await Promise.all(
    Object.entries(pods).map(async ([pod, process]) => {
      const code = await process.stop()
      await removePod(pod)
      return code
    }),
  )
}

function hook(job: string): Promise<string> {
  return runHook({ controlPlane, namespace: SYSTEM, job, folder })
}

async function publish(name: string): Promise<void> {
  const spec = { type: TYPE, data: { name } }
  const event = { apiVersion: 'davit.dev/v1alpha1', kind: 'WebhookEvent', metadata: { name }, spec }
  await call('POST', `${DAVIT}/webhookevents`, event)
}

/** Parameters of an account, so that the second Job has something to remove; the account is not used otherwise. */
async function makeHeld(): Promise<void> {
  for (const [path, kind, { name, spec }, finalizer] of [
    ['registrycredentials', 'RegistryCredential', goodCredential, PARAMETER_FINALIZER],
    ['secretssettings', 'SecretsSettings', goodSettings, ACCOUNT_FINALIZER],
  ] as const) {
    const metadata = { name, finalizers: [finalizer] }
    await call('POST', `${DAVIT}/${path}`, { apiVersion: 'davit.dev/v1alpha1', kind, metadata, spec })
  }
}

/** Of the roles that the Job's account is bound to. */
async function rightsOf(job: string): Promise<Right[]> {
  const rendered = await template('helm4', {}, { name: 'davit', namespace: SYSTEM })
  const roles = rendered.filter(({ kind, metadata }) => kind.endsWith('Role') && metadata.name === job)
  return rightsIn(roles.map((role) => stringify(role)).join('---\n'))
}

async function leases(): Promise<string[]> {
  return (await call<List>('GET', LEASES)).items.map(({ metadata }) => metadata.name)
}

test(
  'what is under way is finished and written, no call is refused, and neither a Lease nor an account stays',
  async () => {
    await release('install', 'davit', CHART)
    await makeHeld()
    const controller = await start('controller', 'first')
    const api = await start('api', 'front')
    const killed = await start('api', 'killed')
    const endpoint = { spec: { url: `${receiver.url}/slow`, eventTypes: [TYPE] } }
    const typed = { apiVersion: 'davit.dev/v1alpha1', kind: 'WebhookEndpoint', metadata: { name: 'slow' } }
    await call('POST', `${DAVIT}/webhookendpoints`, { ...typed, ...endpoint })
    receiver.answer('/slow', { delayMs: ANSWER_AFTER_MS })
    await publish('one')
    await receiver.waitFor(1)
    await killed.kill()
    await removePod('killed')
    const [codes, front, stopped, cleaned] = await Promise.all([
      endPods('controller', { first: controller }),
      endPods('api', { front: api }),
      hook('davit-stop'),
      hook('davit-cleanup'),
      release('uninstall', 'davit'),
    ])
    expect([...codes, ...front]).toEqual([0, 0])
    expect(stopped).toContain('"stopped":true')
    // Of the one that was killed, at least.
    expect(cleaned).toMatch(/"leases":[1-9]/)
    expect(await leases()).toEqual([])
    for (const pod of ['first', 'front'])
      expect(await readFile(logOf(pod), 'utf8')).not.toMatch(/Unauthorized|Forbidden|"status":40[13]/)
    const { items } = await call<List>('GET', `/api/v1/namespaces/${SYSTEM}/serviceaccounts`)
    expect(items.filter(({ metadata }) => metadata.name !== 'default')).toEqual([])
  },
  TEST_LIMIT_MS,
)

test.each(['davit-stop', 'davit-cleanup'])(
  '%s was refused nothing, and used each right that it has',
  async (job) => {
    const deeds = (await readAuditTrail(trail())).filter(
      ({ user }) => user === `system:serviceaccount:${SYSTEM}:${job}`,
    )
    expect(deeds.filter(({ code }) => code === 401 || code === 403)).toEqual([])
    const rights = await rightsOf(job)
    expect(rights.length).toBeGreaterThanOrEqual(2)
    const unused = rights.filter((right) => !deeds.some((deed) => covers(right, deed, SYSTEM)))
    expect(unused.map(nameOfRight)).toEqual([])
  },
)

test(
  'the next install goes on where that one ended, and sends nothing again',
  async () => {
    await release('install', 'davit', CHART)
    const controller = await start('controller', 'second')
    await publish('two')
    await receiver.waitFor(2)
    const bodies = receiver.requests.map(({ body }) => JSON.parse(body.toString()).data.name)
    expect(bodies).toEqual(['one', 'two'])
    expect(await controller.stop()).toBe(0)
  },
  TEST_LIMIT_MS,
)
