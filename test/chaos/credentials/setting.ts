/** Organizations that share two accounts, each with its own roles in both. */

import { API_VERSION } from '../../../src/apis/meta.ts'
import {
  type SecretsSettings,
  secretsSettings,
  secretsSettingsResource,
} from '../../../src/apis/secrets-settings.ts'
import type { KubernetesClient } from '../../../src/kube/resources.ts'
import type { Account } from '../../../test-support/aws/account.ts'
import type { TestAws } from '../../support/aws/organization-account.ts'
import { eventually, patiently } from './patience.ts'

export const REGIONS = ['eu-west-1', 'eu-central-1'] as const
const ACCOUNTS = ['222222222222', '333333333333'] as const
const READY_LIMIT_MS = 60_000

/** A possible location of secrets. */
export type Location = { roleArn: string; region: string }
export type ChaosOrganization = { name: string; places: Location[] }

export function addAccounts({ emulator }: TestAws): Account[] {
  return ACCOUNTS.map((id) => emulator.accounts.add(id))
}

/** Connects like an owner: settings, the roles with the policies of the status, and the settings with a role. */
export async function connect(
  api: KubernetesClient,
  accounts: readonly Account[],
  name: string,
): Promise<ChaosOrganization> {
  await applySettings(api, name, { region: REGIONS[0] })
  let status: SecretsSettings['status']
  await eventually(async () => {
    status = (await readSettings(api, name)).status
    return status?.trustPolicy !== undefined
  }, READY_LIMIT_MS)
  // The policy names one region, and these roles are for all.
  const writer = JSON.parse((status?.writerPolicy ?? '').replaceAll(REGIONS[0], '*'))
  const trust = JSON.parse(status?.trustPolicy ?? '')
  const places = accounts.flatMap((account) =>
    ['first', 'second'].flatMap((which) => {
      const { arn: roleArn } = account.addRole(`davit-${name}-${which}`, { trust, policies: { writer } })
      return REGIONS.map((region) => ({ roleArn, region }))
    }),
  )
  const [location] = places
  if (location) await applySettings(api, name, location)
  return { name, places }
}

export async function applySettings(
  api: KubernetesClient,
  namespace: string,
  spec: { region: string; roleArn?: string },
): Promise<void> {
  const ref = { namespace, name: 'default' }
  const object = { apiVersion: API_VERSION, kind: 'SecretsSettings', metadata: ref, spec }
  const made = await patiently(() => api.create(secretsSettingsResource, object), 'AlreadyExists')
  if (!made) await patiently(() => api.patch(secretsSettingsResource, ref, { spec }))
}

export async function readSettings(api: KubernetesClient, namespace: string): Promise<SecretsSettings> {
  return secretsSettings.parse(await api.get(secretsSettingsResource, { namespace, name: 'default' }))
}
