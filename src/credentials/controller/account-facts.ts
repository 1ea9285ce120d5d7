/** What the SecretsSettings of an organization mean for its credentials. */

import {
  SECRETS_SETTINGS_NAME,
  type SecretsSettings,
  secretsSettings,
  secretsSettingsResource,
} from '../../apis/secrets-settings.ts'
import { isApiError, type ResourceReader } from '../../kube/client.ts'
import { connectedTo } from '../accounts/settings-status.ts'
import { parseRoleArn } from '../aws/role-arn.ts'
import type { AccountFacts, ParameterLocation } from './facts.ts'

/**
 * Read live: a watch that is behind must not make a secret be removed, or be put where it does not belong.
 * @param name of the credential's parameter @throws ApiError
 */
export async function readAccountFacts(
  resources: ResourceReader,
  organization: string,
  name: string,
): Promise<AccountFacts> {
  try {
    const ref = { namespace: organization, name: SECRETS_SETTINGS_NAME }
    return accountFacts(secretsSettings.parse(await resources.get(secretsSettingsResource, ref)), name)
  } catch (error) {
    if (isApiError(error, 'NotFound')) return { state: 'missing' }
    throw error
  }
}

export function accountFacts(settings: SecretsSettings, name: string): AccountFacts {
  const { metadata, status } = settings
  const before = status?.connected && placeFrom(status.connected, name)
  const known = before ? { place: before } : {}
  if (metadata.deletionTimestamp !== undefined) return { state: 'missing', ...known }
  const isCurrent = status?.observedGeneration === metadata.generation
  const condition = (type: string) => status?.conditions?.find((each) => each.type === type)
  const place = placeOf(settings, name)
  if (isCurrent && condition('Ready')?.status === 'True' && place) return { state: 'ready', place }
  const stalled = isCurrent && condition('Stalled')?.status === 'True' ? condition('Stalled') : undefined
  if (stalled)
    return { state: 'stalled', message: `SecretsSettings: ${stalled.reason}: ${stalled.message}`, ...known }
  return { state: 'connecting', message: 'The cloud account of SecretsSettings is being tried.', ...known }
}

function placeOf(settings: SecretsSettings, name: string): ParameterLocation | undefined {
  const wanted = connectedTo(settings)
  return wanted && placeFrom(wanted, name)
}

function placeFrom(
  { roleArn, region, kmsKeyId }: { roleArn: string; region: string; kmsKeyId?: string | undefined },
  name: string,
): ParameterLocation | undefined {
  const account = parseRoleArn(roleArn)?.account
  if (account === undefined) return undefined
  return { name, region, account, roleArn, ...(kmsKeyId === undefined ? {} : { kmsKeyId }) }
}
