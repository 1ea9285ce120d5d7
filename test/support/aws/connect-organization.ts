/** Connects an organization to an account of the emulator, like its owner does with kubectl. */
import { setTimeout as sleep } from 'node:timers/promises'
import { API_VERSION } from '../../../src/apis/meta.ts'
import {
  SECRETS_SETTINGS_NAME,
  type SecretsSettings,
  secretsSettings,
  secretsSettingsKind,
  secretsSettingsResource,
} from '../../../src/apis/secrets-settings.ts'
import type { ResourceReader, ResourceWriter } from '../../../src/kube/client.ts'
import type { Account, Role } from '../../../test-support/aws/account.ts'

export type Connecting = {
  api: ResourceReader & ResourceWriter
  organization: string
  region: string
  /** Several organizations may share one, each with its own role. */
  account: Account
  /** Name of the role. */
  role: string
  /** For each wait. */
  limitMs?: number
}

const LIMIT_MS = 60_000
const POLL_MS = 100

/** Creates settings without a role, then the role with the policies from the status, then adds the role to the settings. */
export async function connectOrganization(of: Connecting): Promise<Role> {
  const role = await makeRole(of)
  await nameRole(of, role)
  await settingsWhen(of, isReady)
  return role
}

/** Creates the role that the status of the settings asks for, without adding it to the settings. */
export async function makeRole(of: Connecting): Promise<Role> {
  const { api, organization, region } = of
  await api.create(secretsSettingsResource, {
    apiVersion: API_VERSION,
    kind: secretsSettingsKind.kind,
    metadata: { namespace: organization, name: SECRETS_SETTINGS_NAME },
    spec: { region },
  })
  const { status } = await settingsWhen(of, (settings) => settings.status?.trustPolicy !== undefined)
  return of.account.addRole(of.role, {
    trust: JSON.parse(status?.trustPolicy ?? ''),
    policies: { writer: JSON.parse(status?.writerPolicy ?? '') },
  })
}

export async function nameRole({ api, organization }: Connecting, { arn }: Pick<Role, 'arn'>): Promise<void> {
  const ref = { namespace: organization, name: SECRETS_SETTINGS_NAME }
  await api.patch(secretsSettingsResource, ref, { spec: { roleArn: arn } })
}

export async function settingsWhen(
  { api, organization, limitMs = LIMIT_MS }: Connecting,
  is: (settings: SecretsSettings) => boolean,
): Promise<SecretsSettings> {
  const limit = performance.now() + limitMs
  const ref = { namespace: organization, name: SECRETS_SETTINGS_NAME }
  for (;;) {
    const settings = secretsSettings.parse(await api.get(secretsSettingsResource, ref))
    if (is(settings)) return settings
    if (performance.now() > limit)
      throw new Error(`the settings of ${organization} stay ${JSON.stringify(settings.status?.conditions)}`)
    await sleep(POLL_MS)
  }
}

function isReady({ metadata, status }: SecretsSettings): boolean {
  const isSo = status?.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True')
  return isSo === true && status?.observedGeneration === metadata.generation
}
