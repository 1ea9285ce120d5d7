/**
 * A restore of more than docs/guides/backup.md names, into another cluster: with the segments of the log, for endpoints that have the UIDs that
 * stand there, and of an organization that has an account.
 */

import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { writeKubeconfig } from '../../playground/api-keys.ts'
import { type ControlPlane, startControlPlane } from '../../playground/control-plane/control-plane.ts'
import { freePort } from '../../playground/free-port.ts'
import { applyInstallation, applyObject, secretsBinding } from '../../playground/installation.ts'
import { secrets } from '../../src/apis/core-kinds.ts'
import { deliverySegments } from '../../src/apis/delivery-segment.ts'
import { API_VERSION } from '../../src/apis/meta.ts'
import { outcomeSegments } from '../../src/apis/outcome-segment.ts'
import {
  REGISTRY_SECRET_TYPE,
  type RegistryCredential,
  registryCredential,
  registryCredentials,
} from '../../src/apis/registry-credential.ts'
import {
  type SecretsSettings,
  secretsSettings,
  secretsSettingsResource,
} from '../../src/apis/secrets-settings.ts'
import { webhookEndpoints } from '../../src/apis/webhook-endpoint.ts'
import { webhookEvents } from '../../src/apis/webhook-event.ts'
import { isApiError, type RawObject } from '../../src/kube/client.ts'
import { connectKubernetes, type KubernetesClient } from '../../src/kube/resources.ts'
import { createClock, createRandom } from '../../src/lib/time.ts'
import type { Account } from '../../test-support/aws/account.ts'
import { connectOrganization } from '../support/aws/connect-organization.ts'
import { REGION, TestAws } from '../support/aws/organization-account.ts'
import { BackupPage } from '../support/backup-page.ts'
import {
  CONTROLLER_ACCOUNT,
  type Installation,
  OPERATOR_NAMESPACE,
  startInstallation,
} from '../support/installation.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { RoleProcess } from '../support/role-process.ts'
import { until } from '../support/until.ts'

const ACME = 'acme'
const ACCOUNT = '222222222222'
const PARAMETER = '/davit/acme/rc_ghcr'
const TYPE = 'environment.started'
const CONFIG = fileURLToPath(new URL('../../config/', import.meta.url))
const HOUR_MS = 60 * 60_000
const HOOK_LIMIT_MS = 240_000
const CREDENTIAL = { namespace: ACME, name: 'ghcr' }
const SETTINGS = { namespace: ACME, name: 'default' }

let aws: TestAws
let account: Account
let receiver: Receiver
let folder: string
let page: BackupPage
let before: Installation
let after: ControlPlane
let api: KubernetesClient
let controller: RoleProcess

beforeAll(async () => {
  aws = await TestAws.start()
  account = aws.emulator.accounts.add(ACCOUNT)
  receiver = await startReceiver()
  folder = await mkdtemp(join(tmpdir(), 'davit-restore-'))
  page = await BackupPage.read(folder)
  before = await startInstallation()
  await liveFor()
  await page.pasteBlock(before.controlPlane, '# Back up')
  const all = 'kubectl get deliverysegments,outcomesegments --all-namespaces -o json > segments.json'
  await page.paste(before.controlPlane, all)
  await before.stop()
  after = await startControlPlane()
  const { kubeconfigPath } = after
  api = await connectKubernetes({ kubeconfigPath, clock: createClock(), random: createRandom() })
  await page.pasteBlock(after, '# Restore')
  await page.pasteBlock(after, '# Restore the status')
  await applyInstallation(api, CONFIG)
  await applyObject(api, secretsBinding(ACME, CONTROLLER_ACCOUNT))
  await anHourLater()
  await page.paste(after, 'jq "$bare" segments.json | kubectl create -f -', '# Restore')
}, HOOK_LIMIT_MS)

afterAll(async () => {
  if (controller?.running) await controller.stop()
  await api?.close()
  await after?.stop()
  await receiver?.close()
  await aws?.stop()
  await rm(folder, { recursive: true, force: true })
})

/** One endpoint that takes an event, and a secret that is stored in the account. */
async function liveFor(): Promise<void> {
  await before.makeOrganization(ACME)
  const running = await before.startController(aws.environment())
  await running.untilReady()
  await connectOrganization({ api: before.api, organization: ACME, region: REGION, account, role: 'davit' })
  await before.api.create(secrets, {
    metadata: { namespace: ACME, name: 'handover' },
    type: REGISTRY_SECRET_TYPE,
    data: { secret: Buffer.from('the-value').toString('base64') },
  })
  const spec = { type: 'token', label: 'GitHub', registry: 'ghcr.io', username: 'bot' }
  await before.api.create(registryCredentials, {
    apiVersion: API_VERSION,
    kind: 'RegistryCredential',
    metadata: CREDENTIAL,
    spec: { ...spec, secretRef: { name: 'handover' } },
  })
  await credentialWhen(before.api, isReady)
  await before.api.create(webhookEndpoints, {
    apiVersion: API_VERSION,
    kind: 'WebhookEndpoint',
    metadata: { namespace: ACME, name: 'billing' },
    spec: { url: `${receiver.url}/billing`, eventTypes: [TYPE] },
  })
  await publish(before.api, 'first')
  await receiver.waitFor(1)
  await running.stop()
}

/** Segments are older than their copies, and speak of the endpoint that there is now: nothing else tells that they are copies. */
async function anHourLater(): Promise<void> {
  const file = join(folder, 'segments.json')
  const objects = JSON.parse(await readFile(join(folder, 'objects.json'), 'utf8')) as { items: RawObject[] }
  const old = objects.items.find(({ kind }) => kind === 'WebhookEndpoint')?.metadata.uid ?? ''
  const { metadata } = await api.get(webhookEndpoints, { namespace: ACME, name: 'billing' })
  const text = (await readFile(file, 'utf8')).replaceAll(old, metadata.uid ?? '')
  const list = JSON.parse(text) as { items: { kind: string; spec: { writtenAt: number } }[] }
  for (const { spec } of list.items) spec.writtenAt -= HOUR_MS
  expect(new Set(list.items.map(({ kind }) => kind))).toEqual(new Set(['DeliverySegment', 'OutcomeSegment']))
  await writeFile(file, JSON.stringify(list))
}

async function startRestored(settings: Readonly<Record<string, string>>): Promise<void> {
  const own = join(folder, 'controller.kubeconfig')
  await writeKubeconfig(own, after.access, CONTROLLER_ACCOUNT)
  controller = new RoleProcess({
    role: 'controller',
    kubeconfigPath: own,
    namespace: OPERATOR_NAMESPACE,
    replica: 'restored',
    opsPort: await freePort(),
    logPath: join(folder, 'controller.log'),
    settings: { ...aws.environment(), ...settings },
  })
  await controller.untilReady()
}

async function publish(to: KubernetesClient, name: string): Promise<void> {
  const metadata = { namespace: ACME, name }
  const spec = { type: TYPE, data: { name } }
  await to.create(webhookEvents, { apiVersion: API_VERSION, kind: 'WebhookEvent', metadata, spec })
}

function isReady({ metadata, status }: RegistryCredential | SecretsSettings): boolean {
  const isSo = status?.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True')
  return isSo === true && status?.observedGeneration === metadata.generation
}

function credentialWhen(
  from: KubernetesClient,
  is: (seen: RegistryCredential) => boolean,
): Promise<RegistryCredential> {
  let last: RegistryCredential | undefined
  return until(
    async () => {
      last = registryCredential.parse(await from.get(registryCredentials, CREDENTIAL))
      return is(last) ? last : undefined
    },
    () => `the credential is not as wanted: ${JSON.stringify(last?.status)}`,
  )
}

function settingsWhen(is: (seen: SecretsSettings) => boolean): Promise<SecretsSettings> {
  let last: SecretsSettings | undefined
  return until(
    async () => {
      last = secretsSettings.parse(await api.get(secretsSettingsResource, SETTINGS))
      return is(last) ? last : undefined
    },
    () => `the settings are not as wanted: ${JSON.stringify(last?.status)}`,
  )
}

test('without the pairs of UIDs, the account lets nobody in, and the settings say so', async () => {
  await startRestored({})
  const { status } = await settingsWhen(
    (seen) =>
      seen.status?.conditions?.some(({ type, status: is }) => type === 'Reachable' && is === 'False') ===
      true,
  )
  const ready = status?.conditions?.find(({ type }) => type === 'Ready')
  expect(ready).toMatchObject({ status: 'False', reason: 'RoleRefused' })
  expect(account.parameters(REGION).get(PARAMETER)?.versions).toHaveLength(1)
  await controller.stop()
})

test('with them it has its external id, and the secret that was stored, and no other version of it', async () => {
  await page.pasteBlock(after, '# In the folder with organizations.json')
  const { config } = JSON.parse(await readFile(join(folder, 'former.json'), 'utf8')) as {
    config: { formerOrganizationUids: string[] }
  }
  expect(config.formerOrganizationUids).toHaveLength(1)
  await startRestored({ DAVIT_FORMER_ORGANIZATION_UIDS: config.formerOrganizationUids.join(',') })
  await settingsWhen(isReady)
  const { status } = await credentialWhen(api, isReady)
  expect(status?.parameter).toMatchObject({ name: PARAMETER, version: 1, account: ACCOUNT })
  expect(account.parameters(REGION).value(PARAMETER)).toBe('the-value')
})

test('and it finds its parameter again when the credential is deleted', async () => {
  await api.delete(registryCredentials, CREDENTIAL)
  await until(
    async () => {
      try {
        await api.get(registryCredentials, CREDENTIAL)
        return undefined
      } catch (error) {
        return isApiError(error, 'NotFound') || undefined
      }
    },
    () => 'the credential does not go',
  )
  expect(account.parameters(REGION).get(PARAMETER)).toBeUndefined()
})

test('segments that were restored all the same send nothing again, and hold up nothing new', async () => {
  expect((await api.list(deliverySegments, {})).items.length).toBeGreaterThan(0)
  expect((await api.list(outcomeSegments, {})).items.length).toBeGreaterThan(0)
  await publish(api, 'second')
  await receiver.waitFor(2)
  await publish(api, 'third')
  await receiver.waitFor(3)
  const names = receiver.requests.map(({ body }) => JSON.parse(body.toString()).data.name)
  expect(names).toEqual(['first', 'second', 'third'])
})
