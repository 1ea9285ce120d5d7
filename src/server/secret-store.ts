/** Secrets on their way into the organization's account: the one place of the facade that hands them on. */
import type { StoredParameter } from '../apis/registry-credential.ts'
import { isOwnedBy, ownerFilter } from '../credentials/aws/owner-tags.ts'
import { sessionArn } from '../credentials/aws/policies.ts'
import type { CallLimits, CloudAccess, ParameterListing, ParameterStore } from '../credentials/cloud.ts'
import { isCloudError } from '../credentials/cloud-error.ts'
import type { CredentialMetrics } from '../lib/metrics.ts'
import type { Clock } from '../lib/ports-clock.ts'
import type { SecretText } from '../lib/secret-text.ts'
import { RefusedError } from './http/refused-error.ts'
import {
  ownerTagsIn,
  parameterNameIn,
  parameterPathIn,
  type ReadyAccount,
  storedIn,
} from './ready-account.ts'

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
    const over = new AbortController()
    const stop = this.#options.clock.after(ms, () => over.abort())
    try {
      return await work({ signal: over.signal, deadlineMs: ms, turnMs: Math.min(ms, TURN_MS) })
    } finally {
      stop()
    }
  }
}

type Place = { access: CloudAccess; name: string }
