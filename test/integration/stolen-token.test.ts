/**
 * What an attacker can do with the controller's token, with the shipped roles and policies, on the real API server: Davit's own
 * calls are allowed, and those that would lead to the secrets of organizations are rejected.
 */

import { readFile } from 'node:fs/promises'
import { afterAll, beforeAll, describe, expect, inject, test, vi } from 'vitest'
import { configMaps, jobs, leases } from '../../src/apis/core-kinds.ts'
import { API_VERSION, type ResourceType } from '../../src/apis/meta.ts'
import {
  PARAMETER_FINALIZER,
  registryCredential,
  registryCredentials,
} from '../../src/apis/registry-credential.ts'
import {
  ACCOUNT_FINALIZER,
  secretsSettings,
  secretsSettingsResource,
} from '../../src/apis/secrets-settings.ts'
import { buildBakeJob, buildBakeOrder } from '../../src/boxes/controller/bake-job.ts'
import { createSettingsWriter } from '../../src/credentials/accounts/controller.ts'
import { connectedTo } from '../../src/credentials/accounts/plan.ts'
import { createCredentialWriter } from '../../src/credentials/controller/gather.ts'
import { MutationCache } from '../../src/kube/mutation-cache.ts'
import { connectKubernetes, type KubernetesClient } from '../../src/kube/resources.ts'
import { createClock, createRandom } from '../../src/lib/time.ts'
import { kubectl, testNamespace } from '../support/control-plane.ts'
import { connectAsController } from '../support/controller-identity.ts'

const ADMISSION = new URL('../../config/admission/', import.meta.url)
/** How long the API server may take to apply a new policy. */
const IN_FORCE = { timeout: 20_000, interval: 50 }
const REPOSITORY = 'registry.example.com:5000/davit'
const ENDPOINT = 'https://aws.example.com'

let organization: string
let operator: string
let admin: KubernetesClient
let stolen: KubernetesClient

beforeAll(async () => {
  organization = await testNamespace('stolen-token')
  operator = await testNamespace('stolen-token-system', { organization: false })
  const kubeconfigPath = inject('kubeconfig')
  admin = await connectKubernetes({ kubeconfigPath, clock: createClock(), random: createRandom() })
  const access = inject('adminAccess')
  stolen = await connectAsController({ access, namespace: operator, organizations: [], kubeconfigPath })
  await narrow('controller-jobs', operator)
  await narrow('controller-finalizers', operator)
  await narrow('controller-records', operator)
  await narrow('settings-status', operator)
}, 60_000)

afterAll(async () => {
  await stolen?.close()
  await admin?.close()
})

/** As it ships, for the controller of this test, with what the chart fills in. */
async function narrow(policy: string, operator: string): Promise<void> {
  const text = await readFile(new URL(`${policy}.yaml`, ADMISSION), 'utf8')
  const own = text
    .replaceAll(`${policy}.davit.dev`, `${policy}.${operator}`)
    .replaceAll('davit-system', operator)
    .replace(`'"*"'`, `'"${REPOSITORY}"'`)
    .replace(`'["*"]'`, `'["${ENDPOINT}"]'`)
  await kubectl(['apply', '-f', '-'], own)
}

describe('with the policy on Jobs', () => {
  let made = 0

  /** With everything that a Job of Davit may have. */
  function job(name: string, image: string) {
    const metadata = { name, namespace: organization, uid: 'u-1', resourceVersion: '1', generation: 1 }
    const template = {
      metadata,
      spec: {
        services: [{ name: 'api', kind: 'custom' as const, image: 'ghcr.io/acme/api:1' }],
        instanceRole: { serviceAccountName: 'box' },
        output: { persistentVolumeClaim: 'boxes' },
      },
    }
    const settings = {
      ...{ image, deadlineSeconds: 3600, ttlSeconds: 3600, cpu: '500m', memory: '512Mi', scratch: '20Gi' },
      realms: [],
      ca: { configMap: 'davit-bake-ca', key: 'ca.crt' },
      awsEndpoints: {
        AWS_ENDPOINT_URL: ENDPOINT,
        AWS_ENDPOINT_URL_ECR: ENDPOINT,
        AWS_ENDPOINT_URL_SSM: ENDPOINT,
        AWS_ENDPOINT_URL_STS: ENDPOINT,
        AWS_IGNORE_CONFIGURED_ENDPOINT_URLS: 'false',
        AWS_USE_DUALSTACK_ENDPOINT: 'false',
        AWS_USE_FIPS_ENDPOINT: 'false',
      },
    }
    const services = [{ name: 'api', image: 'ghcr.io/acme/api:1' }]
    const order = buildBakeOrder(template, { name, services }, settings)
    return buildBakeJob({ template, order, settings, roleArn: 'arn:aws:iam::123456789012:role/box' })
  }

  type Container = ReturnType<typeof job>['spec']['template']['spec']['containers'][number]

  /** @returns the reason of the rejection */
  async function refusal(change: (container: Container) => object): Promise<string> {
    const object = job('stolen', `${REPOSITORY}:1`)
    const [container] = object.spec.template.spec.containers
    if (container) Object.assign(container, change(container))
    return await stolen.create(jobs, object).then(
      () => 'made',
      (error: Error) => error.message,
    )
  }

  const variable = (name: string, value: string) => (container: Container) => ({
    env: [...container.env.filter((each) => each.name !== name), { name, value }],
  })
  const image = (image: string) => () => ({ image })

  beforeAll(() =>
    vi.waitFor(async () => expect(await refusal(image('busybox'))).toContain('the Davit image'), IN_FORCE),
  )

  test.each([
    `${REPOSITORY}:1`,
    // During an upgrade, and after a rollback.
    `${REPOSITORY}:2`,
    `${REPOSITORY}@sha256:${'a'.repeat(64)}`,
    `${REPOSITORY}:1@sha256:${'a'.repeat(64)}`,
    REPOSITORY,
  ])('the Job that Davit makes is made, with the image %s', async (image) => {
    made += 1
    await stolen.create(jobs, job(`bake-${made}`, image))
  })

  const IMAGE = /the Davit image/
  const VARIABLES = /the variables of a bake/
  const AWS = /AWS endpoint URLs/
  const COMMAND = { exec: { command: ['sh'] } }

  test.each([
    ['runs another image', image('registry.example.com:5000/other:1'), IMAGE],
    ['runs an image whose name begins alike', image(`${REPOSITORY}-evil:1`), IMAGE],
    ['runs an image below the repository', image(`${REPOSITORY}/evil:1`), IMAGE],
    ['loads code into Node', variable('NODE_OPTIONS', '--import=data:text/javascript,'), VARIABLES],
    ['loads code into programs', variable('LD_PRELOAD', '/output/evil.so'), VARIABLES],
    ['reads settings of the SDK', variable('AWS_CONFIG_FILE', '/output/config'), VARIABLES],
    ['is at home in a volume', variable('HOME', '/output'), VARIABLES],
    ['brings its token somewhere else', variable('AWS_ENDPOINT_URL_STS', 'https://evil.example.com'), AWS],
    ['has a command to be ready', () => ({ readinessProbe: COMMAND }), /exactly one container/],
    ['has a command to live', () => ({ livenessProbe: COMMAND }), /exactly one container/],
    ['has a command to start', () => ({ startupProbe: COMMAND }), /exactly one container/],
    [
      'mounts a volume over the program',
      () => ({ volumeMounts: [{ name: 'output', mountPath: '/opt/davit/src' }] }),
      /over the files of its image/,
    ],
  ] as const)('none is made that %s', async (_, change, words) => {
    expect(await refusal(change)).toMatch(words)
  })
})

describe('with the policy on what the controller changes', () => {
  const ROLE = 'arn:aws:iam::222222222222:role/davit'
  const OTHER_ROLE = ROLE.replaceAll('2', '3')
  const CONNECTED = { roleArn: ROLE, region: 'eu-west-1' }
  const NOT_THE_ACCOUNT = /the connected account must be the one in the spec/
  const labels = { team: 'shop' }
  const finalizers = ['example.com/theirs']
  const metadataOf = (name: string) => ({ namespace: organization, name, labels, finalizers })
  const refOf = (name: string) => ({ namespace: organization, name })

  const change = (type: ResourceType, name: string, patch: object) => stolen.patch(type, refOf(name), patch)
  const tell = (connected: object) =>
    stolen.patch(
      secretsSettingsResource,
      refOf('default'),
      { status: { connected } },
      { subresource: 'status' },
    )

  beforeAll(async () => {
    await admin.create(registryCredentials, {
      apiVersion: API_VERSION,
      kind: 'RegistryCredential',
      metadata: metadataOf('ghcr'),
      spec: { type: 'token', label: 'GitHub', registry: 'ghcr.io', username: 'bot' },
    })
    await admin.create(secretsSettingsResource, {
      apiVersion: API_VERSION,
      kind: 'SecretsSettings',
      metadata: metadataOf('default'),
      spec: { region: 'eu-west-1', roleArn: ROLE },
    })
    let region = 'eu-west-2'
    /**
     * Another region each time: a change that was accepted before the policies took effect would not be a change later, and be
     * accepted again.
     */
    const anotherRegion = () => {
      region = region === 'eu-west-2' ? 'eu-west-3' : 'eu-west-2'
      return region
    }
    const theft = () => change(secretsSettingsResource, 'default', { spec: { region: anotherRegion() } })
    await vi.waitFor(() => expect(theft()).rejects.toThrow(/must not change the spec/), IN_FORCE)
    const lie = () => tell({ ...CONNECTED, region: anotherRegion(), roleArn: OTHER_ROLE })
    await vi.waitFor(() => expect(lie()).rejects.toThrow(NOT_THE_ACCOUNT), IN_FORCE)
  })

  test('a credential is held, told how it is, and let go', async () => {
    const writer = createCredentialWriter(stolen, new MutationCache())
    const credential = registryCredential.parse(await stolen.get(registryCredentials, refOf('ghcr')))
    const held = await writer.addFinalizer(credential, PARAMETER_FINALIZER)
    expect(held.metadata.finalizers).toEqual([...finalizers, 'davit.dev/parameter'])
    const told = await writer.updateStatus(held, { observedGeneration: 1 })
    const free = await writer.removeFinalizer(told, PARAMETER_FINALIZER)
    expect(free).toMatchObject({ metadata: { finalizers, labels }, status: { observedGeneration: 1 } })
  })

  const nobody = { apiVersion: 'v1', kind: 'ConfigMap', name: 'nobody', uid: 'u-1' }

  describe.each([
    ['settings', secretsSettingsResource, 'default', { roleArn: OTHER_ROLE }],
    ['a credential', registryCredentials, 'ghcr', { username: 'thief' }],
  ] as const)('of %s', (_, type, name, spec) => {
    test.each([
      ['the spec', { spec }, /must not change the spec/],
      [
        'a part of the spec goes',
        { spec: { [Object.keys(spec)[0] ?? '']: null } },
        /must not change the spec|Invalid/,
      ],
      ['a label', { metadata: { labels: { team: 'thief' } } }, /labels, annotations or owners/],
      ['an annotation', { metadata: { annotations: { a: 'b' } } }, /labels, annotations or owners/],
      ['an owner', { metadata: { ownerReferences: [nobody] } }, /labels, annotations or owners/],
      ["another's finalizer goes", { metadata: { finalizers: [] } }, /finalizers other than those of Davit/],
      [
        'a finalizer',
        { metadata: { finalizers: [...finalizers, 'a.b/c'] } },
        /finalizers other than those of Davit/,
      ],
    ] as const)('no change: %s', async (_, patch, words) => {
      await expect(change(type, name, patch)).rejects.toThrow(words)
    })
  })

  test.each([
    ['another role', { ...CONNECTED, roleArn: OTHER_ROLE }],
    ['another region', { ...CONNECTED, region: 'eu-west-3' }],
    ['a key', { ...CONNECTED, kmsKeyId: 'arn:aws:kms:eu-west-1:333333333333:key/thief' }],
    ['another role once it is connected', { roleArn: OTHER_ROLE }],
  ])(
    'settings are not told that they are connected to what their spec does not name: %s',
    async (_, connected) => {
      const { spec } = secretsSettings.parse(await admin.get(secretsSettingsResource, refOf('default')))
      await expect(tell(connected)).rejects.toThrow(NOT_THE_ACCOUNT)
      await tell({ ...CONNECTED, region: spec.region, kmsKeyId: null })
    },
  )

  test('settings are held, told how they are, and let go, also when they are deleted', async () => {
    const writer = createSettingsWriter(stolen, new MutationCache())
    const settings = secretsSettings.parse(await stolen.get(secretsSettingsResource, refOf('default')))
    const held = await writer.addFinalizer(settings, ACCOUNT_FINALIZER)
    const told = await writer.updateStatus(held, { observedGeneration: 1, connected: connectedTo(held) })
    // After the owner has changed the account, and before it is tested.
    await admin.patch(secretsSettingsResource, refOf('default'), { spec: { kmsKeyId: 'alias/mine' } })
    const changed = secretsSettings.parse(await stolen.get(secretsSettingsResource, refOf('default')))
    await writer.updateStatus(changed, { ...told.status, observedGeneration: 2 })
    await admin.delete(secretsSettingsResource, refOf('default'))
    const leaving = secretsSettings.parse(await stolen.get(secretsSettingsResource, refOf('default')))
    await writer.removeFinalizer(leaving, ACCOUNT_FINALIZER)
    expect((await stolen.get(secretsSettingsResource, refOf('default'))).metadata.finalizers).toEqual(
      finalizers,
    )
  })

  test('others change what they may', async () => {
    await admin.patch(registryCredentials, refOf('ghcr'), { spec: { username: 'other' } })
    const { spec } = registryCredential.parse(await admin.get(registryCredentials, refOf('ghcr')))
    expect(spec.username).toBe('other')
  })
})

describe('with the policy on what it records of itself', () => {
  const objectOf = (name: string) => ({ metadata: { namespace: operator, name } })

  beforeAll(() =>
    vi.waitFor(
      () =>
        expect(stolen.create(leases, objectOf('davit-api-1'))).rejects.toThrow(
          /must not write Leases other than/,
        ),
      IN_FORCE,
    ),
  )

  test.each([
    ['a Lease of a REST server', leases, 'davit-api-2', /must not write Leases other than/],
    ['a Lease of another program', leases, 'scheduler', /must not write Leases other than/],
    [
      'another ConfigMap',
      configMaps,
      'settings-of-others',
      /must not write ConfigMaps other than davit-orphaned-parameters/,
    ],
  ] as const)('it does not make %s', async (_, type, name, words) => {
    await expect(stolen.create(type, objectOf(name))).rejects.toThrow(words)
  })

  test('it neither changes nor deletes the Lease of another program', async () => {
    await admin.create(leases, objectOf('of-others'))
    const ref = { namespace: operator, name: 'of-others' }
    await expect(stolen.patch(leases, ref, { spec: { holderIdentity: 'thief' } })).rejects.toThrow(
      /must not write Leases other than/,
    )
    await expect(stolen.delete(leases, ref)).rejects.toThrow(/must not write Leases other than/)
  })

  test('its own Lease and its own list are made, changed and deleted', async () => {
    const ref = { namespace: operator, name: 'davit-controller-1' }
    await stolen.create(leases, objectOf(ref.name))
    await stolen.patch(leases, ref, { spec: { holderIdentity: 'one' } })
    await stolen.delete(leases, ref)
    await stolen.create(configMaps, objectOf('davit-orphaned-parameters'))
    await stolen.patch(
      configMaps,
      { namespace: operator, name: 'davit-orphaned-parameters' },
      { data: { a: 'b' } },
    )
  })
})
