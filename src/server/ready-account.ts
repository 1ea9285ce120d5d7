/** The cloud account in which an organization's secrets are stored now, or why none is. */
import type { StoredParameter } from '../apis/registry-credential.ts'
import type { AccountIdentity } from '../credentials/accounts/account-identity.ts'
import { type Owner, ownerTags } from '../credentials/aws/owner-tags.ts'
import { organizationPath, parameterName } from '../credentials/aws/parameter-name.ts'
import { roleArnParts } from '../credentials/aws/role-arn.ts'
import type { CloudAccess, OwnerTags } from '../credentials/cloud.ts'
import type { ResourceReader } from '../kube/client.ts'
import type { Organization } from '../kube/organizations.ts'
import { RefusedError } from './http/refused-error.ts'
import { readSettings, readyCondition } from './live-settings.ts'

export type ReadyAccount = {
  access: CloudAccess
  account: string
  owner: Owner
  /** What every parameter of Davit is under. */
  prefix: string
}

const CONNECT_FIRST =
  'Connect an account first, with PUT /secrets-settings of the organization. Nothing was stored. A credential of the type ecr needs none.'

export type AccountSources = {
  resources: Pick<ResourceReader, 'get'>
  organizations: { get(name: string): Organization | undefined }
  identity: AccountIdentity
}

/** @throws RefusedError not_found, secrets_settings_required, cloud_account_not_ready; ApiError; UnreadableError */
export async function readyAccount(
  { resources, organizations, identity }: AccountSources,
  organization: string,
): Promise<ReadyAccount> {
  const { uid } = organizations.get(organization) ?? {}
  if (uid === undefined) throw new RefusedError('not_found')
  const settings = await readSettings(resources, organization)
  if (!settings) throw new RefusedError('secrets_settings_required', { detail: CONNECT_FIRST })
  const condition = readyCondition(settings)
  const connected = settings.status?.connected
  if (condition.status !== 'True' || !connected)
    throw new RefusedError('cloud_account_not_ready', { detail: condition.message, condition })
  const { roleArn, region, kmsKeyId } = connected
  return {
    access: {
      organization,
      organizationUid: uid,
      roleArn,
      region,
      externalId: identity.externalIdOf(uid),
      ...(kmsKeyId === undefined ? {} : { kmsKeyId }),
    },
    account: roleArnParts(roleArn).account,
    owner: identity.ownerOf(uid),
    prefix: identity.prefix,
  }
}

/** What every parameter of the organization is under. */
export function parameterPathIn({ prefix, access }: ReadyAccount): string {
  return organizationPath({ prefix, organization: access.organization })
}

export function parameterNameIn({ prefix, access }: ReadyAccount, credential: string): string {
  return parameterName({ prefix, organization: access.organization, credential })
}

export function ownerTagsIn({ owner, access }: ReadyAccount, credential: string): OwnerTags {
  return ownerTags({ ...owner, organization: access.organization, credential })
}

export function storedIn({ access, account }: ReadyAccount, name: string, version: number): StoredParameter {
  const { region, roleArn, kmsKeyId } = access
  return { name, version, region, account, roleArn, ...(kmsKeyId === undefined ? {} : { kmsKeyId }) }
}

/** Whether a parameter is where this account keeps the one of the name. */
export function isIn(
  { access, account }: ReadyAccount,
  name: string,
  stored: StoredParameter | undefined,
): stored is StoredParameter {
  return stored?.name === name && stored.account === account && stored.region === access.region
}
