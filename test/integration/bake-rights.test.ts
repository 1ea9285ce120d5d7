/**
 * The controller's rights for bakes (config/rbac, config/admission): with only these rights templates are baked, each right is
 * used, and a Job of another kind is rejected.
 */

import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, inject, test, vi } from 'vitest'
import { waiting } from '../../playground/bakes/run-statuses.ts'
import type { BoxTemplate } from '../../src/apis/box-template.ts'
import { configMaps, jobs } from '../../src/apis/core-kinds.ts'
import { API_VERSION } from '../../src/apis/meta.ts'
import { registryCredentials } from '../../src/apis/registry-credential.ts'
import type { BoxController } from '../../src/cmd/controller.ts'
import type { RawObject } from '../../src/kube/client.ts'
import { connectKubernetes, type KubernetesClient } from '../../src/kube/resources.ts'
import { createClock, createRandom } from '../../src/lib/time.ts'
import { makeAccount, makeToken, writeKubeconfig } from '../support/api-keys.ts'
import { API, ECR, ROLE_OF_BOX, state } from '../support/baking-davit.ts'
import { kubectl, testNamespace } from '../support/control-plane.ts'
import { BAKE_ENV, JobStandIn } from '../support/job-stand-in.ts'
import { startLoneBakes } from '../support/lone-bakes.ts'
import { recordedApi } from '../support/recorded-api.ts'
import { scopedApi } from '../support/scoped-api.ts'
import { nameOfRight, shippedRights } from '../support/shipped-rights.ts'
import { createTestAuthority } from '../support/tls.ts'

const CONFIG = new URL('../../config/', import.meta.url)
const ACCOUNT = 'davit-controller'
/** The one that its role names. */
const CA = 'davit-bake-ca'
/** How long the API server may take to apply a new policy. */
const IN_FORCE = { timeout: 20_000, interval: 50 }

let folder: string
let organization: string
let operator: string
let admin: KubernetesClient
let limited: KubernetesClient
let bakes: BoxController
let bed: JobStandIn
const deeds = new Set<string>()
const logLines: string[] = []

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'davit-bake-rights-'))
  organization = await testNamespace('bake-rights')
  operator = await testNamespace('bake-rights-system', { organization: false })
  admin = await connect(inject('kubeconfig'))
  await grant()
  const kubeconfig = join(folder, 'kubeconfig')
  await writeKubeconfig(kubeconfig, await makeToken(operator, ACCOUNT, { audiences: [] }))
  limited = await connect(kubeconfig)
  bed = new JobStandIn(admin, organization)
  await startBakes()
}, 120_000)

afterAll(async () => {
  await bakes?.stop()
  await limited?.close()
  await admin?.close()
  await rm(folder, { recursive: true, force: true })
})

function connect(kubeconfigPath: string): Promise<KubernetesClient> {
  return connectKubernetes({ kubeconfigPath, clock: createClock(), random: createRandom() })
}

/** The role and the policy as they ship, for a ServiceAccount of this test's own namespace. */
async function grant(): Promise<void> {
  await makeAccount(operator, ACCOUNT)
  const role = await readFile(new URL('rbac/davit-controller-bakes.yaml', CONFIG), 'utf8')
  const name = `davit-controller-bakes-${operator}`
  const bound = role.replaceAll('davit-controller-bakes', name).replaceAll('davit-system', operator)
  await kubectl(['apply', '-f', '-'], bound)
  const policy = await readFile(new URL('admission/controller-jobs.yaml', CONFIG), 'utf8')
  await kubectl(
    ['apply', '-f', '-'],
    policy
      .replaceAll('controller-jobs.davit.dev', `controller-jobs.${operator}`)
      .replaceAll('davit-system', operator),
  )
}

async function startBakes(): Promise<void> {
  bakes = await startLoneBakes({
    api: recordedApi(scopedApi(limited, [organization]), deeds, beforeCall),
    organization,
    env: { ...BAKE_ENV, DAVIT_BAKE_CA_CONFIG_MAP: CA },
    onLine: (line) => void logLines.push(line),
  })
}

let interfered = false

/** A template is changed just before its first status is written, so that it is read again. */
async function beforeCall(deed: string): Promise<void> {
  if (interfered || deed !== 'patch boxtemplates/status.davit.dev') return
  interfered = true
  await bed.change('rights', { metadata: { labels: { seen: 'yes' } } })
}

async function readyCredential(): Promise<void> {
  const ref = { namespace: organization, name: 'ecr' }
  const spec = { type: 'ecr', label: 'ECR', registry: ECR }
  await admin.create(registryCredentials, {
    apiVersion: API_VERSION,
    kind: 'RegistryCredential',
    metadata: ref,
    spec,
  })
  const ready = {
    type: 'Ready',
    status: 'True',
    reason: 'Accepted',
    message: 'It is.',
    lastTransitionTime: new Date().toISOString(),
  }
  const status = { observedGeneration: 1, conditions: [ready] }
  await admin.patch(registryCredentials, ref, { status }, { subresource: 'status' })
}

const number = (wanted: number) => (template: BoxTemplate) =>
  template.status?.bake?.number === wanted && state('succeeded')(template)

describe('with its rights alone the controller', () => {
  test('bakes, bakes again, and removes the Job of a bake that comes to nothing', async () => {
    await readyCredential()
    await bed.account('box')
    await bed.claim('boxes')
    await bed.configMap(CA, { 'ca.crt': createTestAuthority().ca })
    await bed.make('rights', { services: [API], ...ROLE_OF_BOX, output: { persistentVolumeClaim: 'boxes' } })
    await bed.succeed('rights')
    await bed.templateWhen('rights', number(1))
    const request = { 'davit.dev/rebake-requested-at': new Date().toISOString() }
    await bed.change('rights', { metadata: { annotations: request } })
    await bed.succeed('rights')
    await bed.templateWhen('rights', number(2))
    await bed.make('stuck', { services: [{ name: 'db', kind: 'catalog', image: 'postgres' }] })
    await bed.pod(await bed.job('stuck'), waiting('InvalidImageName', 'no such name'))
    await bed.templateWhen('stuck', state('failed'))
    await bed.withoutJobs('stuck')
  })

  test('has used every one of them, and no other', async () => {
    const rights = (await shippedRights('davit-controller-bakes')).map(nameOfRight)
    await vi.waitFor(() => expect([...deeds].sort()).toEqual(rights.sort()), IN_FORCE)
    expect(logLines.filter((line) => /forbidden/i.test(line))).toEqual([])
    expect(rights.join(' ')).not.toMatch(/\*|secrets/)
  })

  test('reads the authorities of bakes, and no other ConfigMap', async () => {
    await bed.configMap('of-the-owner', {})
    const read = (name: string) => limited.get(configMaps, { namespace: organization, name })
    expect(await read(CA)).toBeDefined()
    await expect(read('of-the-owner')).rejects.toMatchObject({ kind: 'Forbidden' })
  })
})

describe('with the policy on Jobs the controller', () => {
  // The policy would compare the Job with a template that exists.
  const owner = { apiVersion: API_VERSION, kind: 'BoxTemplate', name: 'gone', uid: 'u-1' }
  const labels = { 'davit.dev/box-template': 'gone', 'app.kubernetes.io/name': 'davit-bake' }
  const POD_CONTEXT = {
    runAsNonRoot: true,
    runAsUser: 65_532,
    runAsGroup: 65_532,
    fsGroup: 65_532,
    fsGroupChangePolicy: 'OnRootMismatch',
    seccompProfile: { type: 'RuntimeDefault' },
  }
  const securityContext = {
    allowPrivilegeEscalation: false,
    readOnlyRootFilesystem: true,
    runAsNonRoot: true,
    capabilities: { drop: ['ALL'] },
  }
  const sleep = { name: 'other', image: 'davit:1' }
  const bake = {
    name: 'bake',
    image: 'davit:1',
    args: ['bake'],
    securityContext,
    resources: { limits: { cpu: '500m', memory: '512Mi' } },
  }

  function job(change: {
    namespace?: string
    labels?: object
    owners?: object[]
    token?: boolean
    pod?: object
    container?: object
  }): RawObject {
    const spec = {
      restartPolicy: 'Never',
      automountServiceAccountToken: change.token ?? false,
      securityContext: POD_CONTEXT,
      containers: [{ ...bake, ...change.container }],
      ...change.pod,
    }
    const metadata = {
      name: 'made-by-hand',
      namespace: change.namespace ?? organization,
      labels: { ...(change.labels ?? labels) },
      ownerReferences: change.owners ?? [owner],
    }
    const once = { backoffLimit: 0, activeDeadlineSeconds: 4500 }
    return { apiVersion: 'batch/v1', kind: 'Job', metadata, spec: { ...once, template: { spec } } }
  }

  test('makes no Job but that of a bake, in an organization', async () => {
    const refusal = async (change: Parameters<typeof job>[0]) =>
      await limited.create(jobs, job(change)).then(
        () => 'made',
        (error: Error) => error.message,
      )
    await vi.waitFor(
      async () => expect(await refusal({ labels: {} })).toContain('Jobs other than those of bakes'),
      IN_FORCE,
    )
    expect(await refusal({ owners: [] })).toContain('owned by its template')
    expect(await refusal({ owners: [{ ...owner, name: 'other' }] })).toContain('owned by its template')
    expect(await refusal({ token: true })).toContain('no token for the API server')
    expect(await refusal({ namespace: operator })).toContain('bakes must run in organizations')
    expect(await refusal({})).toBe('made')
  })

  const token = (audience?: string) => ({
    projected: { sources: [{ serviceAccountToken: { path: 't', audience } }] },
  })

  test.for([
    ['mounts a Secret', { secret: { secretName: 'x' } }],
    ['has a Secret among what is projected', { projected: { sources: [{ secret: { name: 'x' } }] } }],
    ['has a token for the API server', token()],
    ['has a token for somebody else', token('vault')],
    ['mounts a folder of its node', { hostPath: { path: '/' } }],
  ] as const)('refuses a Job with a volume: it %s', async ([, volume]) => {
    const pod = { volumes: [{ name: 'output', ...volume }] }
    await expect(limited.create(jobs, job({ pod }))).rejects.toThrow(/certificates and a token for AWS/)
  })

  test.for([
    [
      'its environment',
      { env: [{ name: 'AWS_ROLE_ARN', valueFrom: { secretKeyRef: { name: 'x', key: 'x' } } }] },
    ],
    ['all of its environment', { envFrom: [{ secretRef: { name: 'x' } }] }],
  ] as const)('makes no Job with a Secret as %s', async ([, container]) => {
    await expect(limited.create(jobs, job({ container }))).rejects.toThrow(/in its Job, and nowhere else/)
  })

  test('removes no Job of somebody else', async () => {
    const { metadata, ...rest } = job({ labels: {}, owners: [] })
    await admin.create(jobs, { ...rest, metadata: { ...metadata, name: 'of-the-owner' } })
    const ref = { namespace: organization, name: 'of-the-owner' }
    await expect(limited.delete(jobs, ref)).rejects.toMatchObject({ kind: 'Forbidden' })
    await limited.delete(jobs, { namespace: organization, name: 'made-by-hand' })
  })

  const secured = (securityContext: object) => ({ containers: [{ ...bake, securityContext }] })

  test.for([
    ['sees the processes of its node', { hostPID: true }, /must not use host namespaces/],
    ['is in the network of its node', { hostNetwork: true }, /must not use host namespaces/],
    ['shares memory with its node', { hostIPC: true }, /must not use host namespaces/],
    ['is privileged', secured({ privileged: true }), /must not use host namespaces/],
    [
      'has a capability more',
      secured({ capabilities: { add: ['SYS_ADMIN'] } }),
      /must not use host namespaces/,
    ],
    ['has a second container', { containers: [bake, sleep] }, /exactly one container/],
    ['has another container', { containers: [sleep] }, /exactly one container/],
    ['has one that runs before', { initContainers: [sleep] }, /exactly one container/],
    ['runs a command', { containers: [{ ...bake, command: ['sh'] }] }, /exactly one container/],
    ['does something else', { containers: [{ ...bake, args: ['api'] }] }, /exactly one container/],
    ['does what its image does', { containers: [{ ...bake, args: undefined }] }, /exactly one container/],
    ['bakes with more words', { containers: [{ ...bake, args: ['bake', 'x'] }] }, /exactly one container/],
    ['pulls with a Secret', { imagePullSecrets: [{ name: 'x' }] }, /in its Job, and nowhere else/],
  ] as const)('makes no Job whose pod %s', async ([, pod, words]) => {
    const { spec: _, ...rest } = job({})
    const template = {
      spec: { restartPolicy: 'Never', automountServiceAccountToken: false, containers: [bake], ...pod },
    }
    await expect(limited.create(jobs, { ...rest, spec: { template } })).rejects.toThrow(words)
  })
})
