import type { StoredParameter } from '../apis/registry-credential.ts'
import {
  SECRETS_SETTINGS_NAME,
  type SecretsSettings,
  secretsSettings,
  secretsSettingsKind,
  secretsSettingsResource,
} from '../apis/secrets-settings.ts'
import type { AccountIdentity } from '../credentials/accounts/identity.ts'
import { testedAccount } from '../credentials/accounts/plan.ts'
import { organizationPath, parameterName, roleArnParts } from '../credentials/aws/names.ts'
import { isOwnedBy, type Owner, ownerFilter, ownerTags } from '../credentials/aws/parameter-tags.ts'
import { sessionArn } from '../credentials/aws/policies.ts'
import {
  type CallLimits,
  type CloudAccess,
  isCloudError,
  type ParameterListing,
  type ParameterStore,
} from '../credentials/cloud.ts'
import { findObject, type ResourceReader } from '../kube/client.ts'
import type { Organizations } from '../kube/organizations.ts'
import type { CredentialMetrics } from '../lib/metrics.ts'
import type { SecretText } from '../lib/redact.ts'
import { type Clock, withDeadline } from '../lib/time.ts'
import { Problem, type ProblemCondition } from './http/problems.ts'
import { type NamespacedRef, parseStored, type StoredKind } from './objects.ts'

/**
 * The organization's cloud account, and the one place of the REST server that hands secrets on to it.
 */

export const SETTINGS: StoredKind<SecretsSettings> = {
  type: secretsSettingsResource,
  kind: secretsSettingsKind.kind,
  schema: secretsSettings,
}

export function settingsRef(organization: string): NamespacedRef {
  return { namespace: organization, name: SECRETS_SETTINGS_NAME }
}

/** Undefined if there are none or if they are being deleted. @throws ApiError; UnreadableError */
export async function readSettings(
  resources: Pick<ResourceReader, 'get'>,
  organization: string,
): Promise<SecretsSettings | undefined> {
  const raw = await findObject(resources, secretsSettingsResource, settingsRef(organization))
  return raw === undefined || raw.metadata.deletionTimestamp !== undefined
    ? undefined
    : parseStored(SETTINGS, raw)
}

/** Whether the status is about the current spec. */
export function isObserved({ metadata, status }: SecretsSettings): boolean {
  return status !== undefined && status.observedGeneration === metadata.generation
}

/** The condition of the account that the spec names, not of an earlier one, and of no other that a status names. */
function readyCondition(settings: SecretsSettings): ProblemCondition {
  const held = settings.status?.conditions?.find(({ type }) => type === 'Ready')
  if (!held || !isObserved(settings)) return NOT_TRIED
  if (held.status === 'True' && !testedAccount(settings)) return NOT_TRIED
  const { type, status, reason, message } = held
  return { type, status, reason, message }
}

export const NOT_TRIED: ProblemCondition = {
  type: 'Ready',
  status: 'Unknown',
  reason: 'Connecting',
  message: 'Davit has not tested the AWS account with these settings yet.',
}

/** The cloud account in which an organization's secrets are stored now. */
export type ReadyAccount = {
  access: CloudAccess
  account: string
  owner: Owner
  /** Every parameter of Davit is under it. */
  prefix: string
}

export type AccountSources = {
  resources: Pick<ResourceReader, 'get'>
  organizations: Pick<Organizations, 'get'>
  identity: AccountIdentity
}

/** @throws Problem not_found, secrets_settings_required, cloud_account_not_ready; ApiError; UnreadableError */
export async function readyAccount(
  { resources, organizations, identity }: AccountSources,
  organization: string,
): Promise<ReadyAccount> {
  const { uid } = organizations.get(organization) ?? {}
  if (uid === undefined) throw new Problem('not_found')
  const settings = await readSettings(resources, organization)
  if (!settings) throw new Problem('secrets_settings_required')
  const condition = readyCondition(settings)
  const tested = testedAccount(settings)
  if (condition.status !== 'True' || !tested)
    throw new Problem('cloud_account_not_ready', { detail: condition.message, condition })
  return {
    access: identity.accessAs({ organization, organizationUid: uid }, tested),
    account: roleArnParts(tested.roleArn).account,
    owner: identity.ownerOf(uid),
    prefix: identity.prefix,
  }
}

export function parameterNameIn({ prefix, access }: ReadyAccount, credential: string): string {
  return parameterName({ prefix, organization: access.organization, credential })
}

function storedIn({ access, account }: ReadyAccount, name: string, version: number): StoredParameter {
  const { region, roleArn, kmsKeyId } = access
  return { name, version, region, account, roleArn, ...(kmsKeyId === undefined ? {} : { kmsKeyId }) }
}

/** Whether the stored parameter is in this account and region, under this name. */
export function isIn(
  { access, account }: ReadyAccount,
  name: string,
  stored: StoredParameter | undefined,
): stored is StoredParameter {
  return stored?.name === name && stored.account === account && stored.region === access.region
}

type Options = { parameters: ParameterStore & ParameterListing; clock: Clock; metrics: CredentialMetrics }

/** A parameter of ours, whatever account access it takes. */
type ParameterRef = { access: CloudAccess; name: string }

/**
 * For everything that a request does in the account. Shorter than the time after which a repeat presumes the first request
 * dead, so that two of them never work at the same time.
 */
const WITHIN_MS = 12_000
const TURN_MS = 6000
const TAKE_BACK_MS = 5000
/** In clear text in the account. */
const DESCRIPTION = 'Secret of a registry credential, managed by Davit.'
/** More than an account can hold. */
const MAX_LISTED = 10_000

export class SecretStore {
  readonly #options: Options

  constructor(options: Options) {
    this.#options = options
  }

  /**
   * Stores the secret of a credential that has no parameter. Removes first what a request left there that ended half way, so
   * that none of its versions stays.
   * @throws Problem cloud_account_not_ready if the parameter is not ours; CloudError
   */
  putNew(account: ReadyAccount, credential: string, value: SecretText): Promise<StoredParameter> {
    const name = parameterNameIn(account, credential)
    const { access, owner } = account
    const tags = ownerTags({ ...owner, organization: access.organization, credential })
    const parameter = { name, value, description: DESCRIPTION, tags }
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

  /** Stores a new version. @returns undefined if there is no parameter @throws as `putNew` */
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
   * The version that an earlier request wrote and did not record.
   * @param after the version recorded before that request, or 0, and its start in milliseconds since 1970
   */
  findWritten(
    account: ReadyAccount,
    credential: string,
    after: { version: number; began: number },
  ): Promise<StoredParameter | undefined> {
    const { access, owner } = account
    const name = parameterNameIn(account, credential)
    return this.#within(WITHIN_MS, async (limits) => {
      const prefix = organizationPath({ prefix: account.prefix, organization: access.organization })
      const filter = { prefix, tags: ownerFilter(owner), limit: MAX_LISTED }
      const listed = await this.#options.parameters.list(access, filter, limits)
      const found = listed.find((parameter) => parameter.name === name)
      // It may be of another request, with another secret: in doubt it is written again.
      const isOld = !found || found.version <= after.version || found.modifiedAt < after.began
      if (isOld || found.modifiedBy !== sessionArn(access)) return undefined
      return storedIn(account, name, found.version)
    })
  }

  /** Removes the parameter of a credential. @throws CloudError; Problem if it is not ours */
  takeBack(account: ReadyAccount, credential: string): Promise<void> {
    const ref = { access: account.access, name: parameterNameIn(account, credential) }
    return this.#within(TAKE_BACK_MS, (limits) => this.#removeOwn(account, ref, limits))
  }

  /** Removes a parameter from the organization's earlier account or region. @throws as `takeBack` */
  leave(account: ReadyAccount, { name, region, roleArn }: StoredParameter): Promise<void> {
    const ref = { access: { ...account.access, region, roleArn }, name }
    return this.#within(TAKE_BACK_MS, (limits) => this.#removeOwn(account, ref, limits))
  }

  async #removeOwn(account: ReadyAccount, ref: ParameterRef, limits: CallLimits): Promise<void> {
    const { parameters, metrics } = this.#options
    try {
      if ((await this.#ownership(account, ref, limits)) === 'absent') return
      metrics.parameterRemoved(await parameters.remove(ref.access, ref.name, limits))
    } catch (error) {
      metrics.parameterRemoved('failed')
      throw error
    }
  }

  /** @throws Problem if it is not ours */
  async #ownership(
    { owner, account }: ReadyAccount,
    { access, name }: ParameterRef,
    limits: CallLimits,
  ): Promise<'ours' | 'absent'> {
    try {
      if (isOwnedBy(await this.#options.parameters.tagsOf(access, name, limits), owner)) return 'ours'
    } catch (error) {
      if (isCloudError(error) && error.remedy === 'gone') return 'absent'
      throw error
    }
    const detail = `The parameter ${name} already exists in AWS account ${account}, region ${access.region}, and Davit did not create it for this organization. Delete the parameter.`
    throw new Problem('cloud_account_not_ready', { detail })
  }

  async #within<T>(ms: number, work: (limits: CallLimits) => Promise<T>): Promise<T> {
    const rest = { deadlineMs: ms, turnMs: Math.min(ms, TURN_MS) }
    return await withDeadline(this.#options.clock, ms, (signal) => work({ signal, ...rest }))
  }
}
