import type { StoredParameter } from '../apis/registry-credential.ts'
import {
  SECRETS_SETTINGS_NAME,
  type SecretsSettings,
  secretsSettings,
  secretsSettingsKind,
  secretsSettingsResource,
} from '../apis/secrets-settings.ts'
import type { AccountIdentity } from '../credentials/accounts/identity.ts'
import {
  isOwnedBy,
  type Owner,
  organizationPath,
  ownerFilter,
  ownerTags,
  parameterName,
  roleArnParts,
} from '../credentials/aws/names.ts'
import { sessionArn } from '../credentials/aws/policies.ts'
import {
  type CallLimits,
  type CloudAccess,
  isCloudError,
  type OwnerTags,
  type ParameterListing,
  type ParameterStore,
} from '../credentials/cloud.ts'
import { findObject, type RawObject, type ResourceReader, UnreadableError } from '../kube/client.ts'
import type { Organization } from '../kube/organizations.ts'
import type { Clock } from '../lib/clock.ts'
import type { CredentialMetrics } from '../lib/metrics.ts'
import type { SecretText } from '../lib/redact.ts'
import { withDeadline } from '../lib/sleep.ts'
import { type RefusedCondition, RefusedError } from './http/problems.ts'

/** SecretsSettings as they are now, and what their conditions say of them. */

/** Undefined where there are none. Those that are being deleted come too. @throws ApiError */
export async function readRawSettings(
  resources: Pick<ResourceReader, 'get'>,
  organization: string,
): Promise<RawObject | undefined> {
  const ref = { namespace: organization, name: SECRETS_SETTINGS_NAME }
  return await findObject(resources, secretsSettingsResource, ref)
}

/** Undefined where there are none, and of those that are being deleted. @throws ApiError; UnreadableError */
export async function readSettings(
  resources: Pick<ResourceReader, 'get'>,
  organization: string,
): Promise<SecretsSettings | undefined> {
  const raw = await readRawSettings(resources, organization)
  return raw === undefined || raw.metadata.deletionTimestamp !== undefined ? undefined : parseSettings(raw)
}

/** @throws UnreadableError */
export function parseSettings(raw: RawObject): SecretsSettings {
  const { data } = secretsSettings.safeParse(raw)
  if (data) return data
  throw new UnreadableError(secretsSettingsKind.kind, `${raw.metadata.namespace}/${raw.metadata.name}`)
}

/** Whether the status speaks of the spec as it is. */
export function isObserved({ metadata, status }: SecretsSettings): boolean {
  return status !== undefined && status.observedGeneration === metadata.generation
}

/** What is known of the condition with these settings, not with those before. */
function readyCondition(settings: SecretsSettings): RefusedCondition {
  const held = settings.status?.conditions?.find(({ type }) => type === 'Ready')
  if (!held || !isObserved(settings)) return NOT_TRIED
  const { type, status, reason, message } = held
  return { type, status, reason, message }
}

export const NOT_TRIED: RefusedCondition = {
  type: 'Ready',
  status: 'Unknown',
  reason: 'Connecting',
  message: 'The account has not been tried with these settings yet.',
}

/** The cloud account in which an organization's secrets are stored now, or why none is. */

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
  return {
    access: identity.accessAs({ organization, organizationUid: uid }, connected),
    account: roleArnParts(connected.roleArn).account,
    owner: identity.ownerOf(uid),
    prefix: identity.prefix,
  }
}

/** What every parameter of the organization is under. */
function parameterPathIn({ prefix, access }: ReadyAccount): string {
  return organizationPath({ prefix, organization: access.organization })
}

export function parameterNameIn({ prefix, access }: ReadyAccount, credential: string): string {
  return parameterName({ prefix, organization: access.organization, credential })
}

function ownerTagsIn({ owner, access }: ReadyAccount, credential: string): OwnerTags {
  return ownerTags({ ...owner, organization: access.organization, credential })
}

function storedIn({ access, account }: ReadyAccount, name: string, version: number): StoredParameter {
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

/** Secrets on their way into the organization's account: the one place of the facade that hands them on. */

export type SecretStoreOptions = {
  parameters: ParameterStore & ParameterListing
  clock: Clock
  metrics: CredentialMetrics
}

/**
 * For all that a request does in the account. Less than the time after which a repeat of it takes the first one for dead, so
 * that two of them are never at it.
 */
const WITHIN_MS = 12_000
const TURN_MS = 6000
/** For taking back what a request has put. */
const TAKE_BACK_MS = 5000
/** In clear text in the account. */
const DESCRIPTION = 'Secret of a registry credential, kept by Davit.'
/** More than an account takes. */
const MAX_LISTED = 10_000

export class SecretStore {
  readonly #options: SecretStoreOptions

  constructor(options: SecretStoreOptions) {
    this.#options = options
  }

  /**
   * Under the name of a credential that has no parameter. What a request left there that ended half way is removed before, so that
   * none of its versions stays.
   * @throws RefusedError cloud_account_not_ready where it is somebody else's; CloudError
   */
  putNew(account: ReadyAccount, credential: string, value: SecretText): Promise<StoredParameter> {
    const name = parameterNameIn(account, credential)
    const parameter = { name, value, description: DESCRIPTION, tags: ownerTagsIn(account, credential) }
    return this.#within(WITHIN_MS, async (limits) => {
      const { parameters } = this.#options
      const create = async () => {
        const { version } = await parameters.create(account.access, parameter, limits)
        this.#options.metrics.secretStored('created')
        return storedIn(account, name, version)
      }
      try {
        return await create()
      } catch (error) {
        if (!isCloudError(error, 'ParameterAlreadyExists')) throw error
      }
      await this.#removeOwn(account, { access: account.access, name }, limits)
      return await create()
    })
  }

  /** A new version. @returns undefined where there is nothing to write over @throws as `putNew` */
  putOver(
    account: ReadyAccount,
    credential: string,
    value: SecretText,
  ): Promise<StoredParameter | undefined> {
    const name = parameterNameIn(account, credential)
    return this.#within(WITHIN_MS, async (limits) => {
      const { parameters } = this.#options
      if ((await this.#ownership(account, { access: account.access, name }, limits)) === 'absent')
        return undefined
      try {
        const { version } = await parameters.replace(account.access, name, value, limits)
        this.#options.metrics.secretStored('replaced')
        return storedIn(account, name, version)
      } catch (error) {
        if (isCloudError(error) && error.remedy === 'gone') return undefined
        throw error
      }
    })
  }

  /**
   * The version that a request of before has written and not recorded.
   * @param after the version that was recorded before that request, 0 where none was; and when it began, in milliseconds since 1970
   */
  findWritten(
    account: ReadyAccount,
    credential: string,
    after: { version: number; began: number },
  ): Promise<StoredParameter | undefined> {
    const { access, owner } = account
    const name = parameterNameIn(account, credential)
    return this.#within(WITHIN_MS, async (limits) => {
      const filter = { prefix: parameterPathIn(account), tags: ownerFilter(owner), limit: MAX_LISTED }
      const listed = await this.#options.parameters.list(access, filter, limits)
      const found = listed.find((parameter) => parameter.name === name)
      // Of another request that ended half way it would be another secret: in doubt it is written again.
      const isOld = !found || found.version <= after.version || found.modifiedAt < after.began
      if (isOld || found.modifiedBy !== sessionArn(access)) return undefined
      return storedIn(account, name, found.version)
    })
  }

  /** What is under the name of a credential, if it is ours. @throws CloudError; RefusedError where it is not */
  takeBack(account: ReadyAccount, credential: string): Promise<void> {
    const at = { access: account.access, name: parameterNameIn(account, credential) }
    return this.#within(TAKE_BACK_MS, (limits) => this.#removeOwn(account, at, limits))
  }

  /** Of an account or region that was the organization's before. @throws as `takeBack` */
  leave(account: ReadyAccount, { name, region, roleArn }: StoredParameter): Promise<void> {
    const at = { access: { ...account.access, region, roleArn }, name }
    return this.#within(TAKE_BACK_MS, (limits) => this.#removeOwn(account, at, limits))
  }

  async #removeOwn(account: ReadyAccount, at: Place, limits: CallLimits): Promise<void> {
    const { parameters, metrics } = this.#options
    try {
      if ((await this.#ownership(account, at, limits)) === 'absent') return
      metrics.parameterRemoved(await parameters.remove(at.access, at.name, limits))
    } catch (error) {
      metrics.parameterRemoved('failed')
      throw error
    }
  }

  /** @throws RefusedError where it is somebody else's */
  async #ownership(
    { owner, account }: ReadyAccount,
    { access, name }: Place,
    limits: CallLimits,
  ): Promise<'ours' | 'absent'> {
    try {
      if (isOwnedBy(await this.#options.parameters.tagsOf(access, name, limits), owner)) return 'ours'
    } catch (error) {
      if (isCloudError(error) && error.remedy === 'gone') return 'absent'
      throw error
    }
    const detail = `There is a parameter ${name} in account ${account}, region ${access.region}, that Davit did not make for this organization. Remove it there.`
    throw new RefusedError('cloud_account_not_ready', { detail })
  }

  async #within<T>(ms: number, work: (limits: CallLimits) => Promise<T>): Promise<T> {
    const rest = { deadlineMs: ms, turnMs: Math.min(ms, TURN_MS) }
    return await withDeadline(this.#options.clock, ms, (signal) => work({ signal, ...rest }))
  }
}

type Place = { access: CloudAccess; name: string }
