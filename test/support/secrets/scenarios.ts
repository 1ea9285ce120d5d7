/** What users do with secrets, as steps after which everything settles. */

import { secrets } from '../../../src/apis/core-kinds.ts'
import { NAME_ENTROPY_BYTES, sortableName } from '../../../src/apis/ids.ts'
import { API_VERSION } from '../../../src/apis/meta.ts'
import { PARAMETER_FINALIZER, registryCredentials } from '../../../src/apis/registry-credential.ts'
import { secretsSettingsResource } from '../../../src/apis/secrets-settings.ts'
import { ownerTags } from '../../../src/credentials/aws/parameter-tags.ts'
import { SecretText } from '../../../src/lib/redact.ts'
import { Lifeline } from './lifeline.ts'
import { MortalApi } from './mortal-api.ts'
import { REGION, type SecretsWorld, TENANT_TYPES } from './secrets-world.ts'

export const ORGANIZATION = 'acme'
export const ACCOUNT = '111111111111'
export const OTHER_ACCOUNT = '222222222222'
export const OTHER_REGION = 'eu-central-1'
const RETAINED = true

type Step = (world: SecretsWorld) => Promise<unknown>
export type Scenario = {
  name: string
  before: Step[]
  steps: Step[] /** Of the credential at the end. */
  ready?: string
}

const connect: Step = (world) => world.connect(ORGANIZATION, ACCOUNT)
const handOver =
  (value: string, retain = false): Step =>
  (world) =>
    world.handOver(ORGANIZATION, 'handover', value, retain)
const credential: Step = (world) =>
  world.credential(ORGANIZATION, 'ghcr', { secretRef: { name: 'handover' } })
const removeCredential: Step = (world) => world.remove(registryCredentials, ORGANIZATION, 'ghcr')
const removeSettings: Step = (world) => world.remove(secretsSettingsResource, ORGANIZATION, 'default')
const changeAccount: Step = (world) => world.connect(ORGANIZATION, OTHER_ACCOUNT)
const changeRegion: Step = (world) => world.connect(ORGANIZATION, ACCOUNT, OTHER_REGION)
const changeRole: Step = (world) => {
  const roleArn = world.role(ORGANIZATION, ACCOUNT, 'another')
  const region = world.allSettings().find(({ metadata }) => metadata.namespace === ORGANIZATION)?.spec.region
  return world.settings(ORGANIZATION, { region: region ?? REGION, roleArn })
}
const terminate: Step = (world) => world.cluster.terminate(ORGANIZATION, TENANT_TYPES)

const stored: Step[] = [connect, handOver('v-1'), credential]
const retained: Step[] = [connect, handOver('v-1', RETAINED), credential]

export const SCENARIOS: Scenario[] = [
  {
    name: 'connect',
    before: [],
    steps: [
      (world) => world.settings(ORGANIZATION, { region: REGION }),
      connect,
      handOver('v-1'),
      credential,
    ],
    ready: 'v-1',
  },
  { name: 'create by hand-over', before: [connect], steps: [handOver('v-1'), credential], ready: 'v-1' },
  { name: 'create before the Secret', before: [connect], steps: [credential, handOver('v-1')], ready: 'v-1' },
  {
    name: 'create retained',
    before: [connect],
    steps: [handOver('v-1', RETAINED), credential],
    ready: 'v-1',
  },
  { name: 'rotate', before: stored, steps: [handOver('v-2')], ready: 'v-2' },
  { name: 'rotate retained', before: retained, steps: [handOver('v-2')], ready: 'v-2' },
  {
    name: 'rotate again at once',
    before: stored,
    steps: [
      async (world) => {
        await handOver('v-2')(world)
        await world.clock.elapse(0)
        await handOver('v-3')(world)
      },
    ],
    ready: 'v-3',
  },
  { name: 'delete', before: stored, steps: [removeCredential] },
  {
    name: 'delete and make again',
    before: stored,
    steps: [removeCredential, handOver('v-2'), credential],
    ready: 'v-2',
  },
  {
    name: 'make and delete at once',
    before: [connect],
    steps: [
      async (world) => {
        await handOver('v-1')(world)
        await credential(world)
        await world.clock.elapse(0)
        await removeCredential(world)
      },
    ],
  },
  { name: 'delete the settings', before: stored, steps: [removeSettings] },
  {
    name: 'delete the settings and connect again',
    before: retained,
    steps: [removeSettings, connect],
    ready: 'v-1',
  },
  { name: 'change the account', before: retained, steps: [changeAccount], ready: 'v-1' },
  { name: 'change the account and back', before: retained, steps: [changeAccount, connect], ready: 'v-1' },
  { name: 'change the account, the Secret is gone', before: stored, steps: [changeAccount] },
  { name: 'change the region', before: retained, steps: [changeRegion], ready: 'v-1' },
  { name: 'change the role', before: stored, steps: [changeRole, removeCredential] },
  { name: 'delete the namespace', before: retained, steps: [terminate] },
  {
    name: 'make and delete the namespace at once',
    before: [connect],
    steps: [
      async (world) => {
        await handOver('v-1', RETAINED)(world)
        await credential(world)
        await world.clock.elapse(0)
        await terminate(world)
      },
    ],
  },
]

/** What may happen while no process runs. */
export const MEANWHILE: Record<string, Step> = {
  'the credential is deleted': removeCredential,
  'the settings are deleted': removeSettings,
  'the namespace is deleted': terminate,
  'the account is changed': changeAccount,
  'the region is changed': changeRegion,
  'the role is changed': changeRole,
  'the Secret is deleted': (world) => world.remove(secrets, ORGANIZATION, 'handover'),
  'the Secret is changed': handOver('v-9'),
}

/**
 * A request to the REST server: the parameter, the resource with its finalizer, the status. The server may end at any of its
 * calls.
 */
export async function createByRest(world: SecretsWorld, life = new Lifeline()): Promise<void> {
  const { accounts } = world.process.role
  const organizationUid = world.organizations.get(ORGANIZATION) ?? ''
  const location = { roleArn: `arn:aws:iam::${ACCOUNT}:role/${ORGANIZATION}`, region: REGION }
  const access = accounts.accessAs({ organization: ORGANIZATION, organizationUid }, location)
  const restName = sortableName(world.clock.now(), new Uint8Array(NAME_ENTROPY_BYTES))
  const api = new MortalApi(world.cluster, life)
  const cloud = world.cloud.ports((name, run) => life.call(name, run))
  const name = `/davit/${ORGANIZATION}/rc_${restName}`
  const tags = ownerTags({
    installation: accounts.installation,
    organizationUid,
    organization: ORGANIZATION,
    credential: restName,
  })
  const value = new SecretText('by rest')
  const { version } = await cloud.create(access, { name, value, description: '', tags })
  const ref = { namespace: ORGANIZATION, name: restName }
  await api.create(registryCredentials, {
    apiVersion: API_VERSION,
    kind: 'RegistryCredential',
    metadata: { ...ref, finalizers: [PARAMETER_FINALIZER] },
    spec: { type: 'token', label: 'rest', registry: 'ghcr.io', username: 'bot' },
  })
  const parameter = { name, version, account: ACCOUNT, ...location }
  await api.patch(registryCredentials, ref, { status: { parameter } }, { subresource: 'status' })
}
