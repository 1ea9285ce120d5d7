/**
 * Leaves a cloud account: removes the parameters that no resource will refer to any more (a credential removes the one it has recorded).
 * It ends whatever the cloud says; what could not be removed goes to the list of failed deletions.
 */
import { API_VERSION } from '../../apis/meta.ts'
import {
  type FailedDeletionRecord,
  type RegistryCredential,
  registryCredential,
  registryCredentials,
} from '../../apis/registry-credential.ts'
import {
  type ConnectedAccount,
  type SecretsSettings,
  secretsSettingsKind,
} from '../../apis/secrets-settings.ts'
import { findObject, type ResourceReader } from '../../kube/client.ts'
import type { EventRecorder } from '../../kube/recorder.ts'
import { withPeriod } from '../../lib/text.ts'
import { type Clock, sleep, unlessAborted, withDeadline } from '../../lib/time.ts'
import { parseRoleArn } from '../aws/names.ts'
import { sessionArn } from '../aws/policies.ts'
import { type CloudAccess, CloudError, type ListedParameter } from '../cloud.ts'
import { type AccountListings, collectGarbage, type GarbageOptions } from './garbage.ts'
import type { AccountAccess } from './identity.ts'
import { connectedTo } from './plan.ts'

type ParameterRef = { name: string; account: string; region: string }

export type AccountDisconnectorOptions = GarbageOptions & {
  accounts: AccountAccess
  listings: AccountListings
  events: EventRecorder
  clock: Clock
  /** Whether a resource has recorded this very parameter, read live. */
  isRecorded: (organization: string, credential: string, at: ParameterRef) => Promise<boolean>
  /** Durable once it resolves. */
  recordFailedDeletion: (record: Omit<FailedDeletionRecord, 'recordedAt'>) => Promise<void>
  /** Resolves once this process has nothing in progress for credentials of the organization. */
  settled: (organization: string) => Promise<void>
}

/** By then, REST requests that started before the account was left have ended, and their parameters are listed. */
const SAVES_END_MS = 15_000
/** By then, a credential in progress no longer waits for a turn. */
const SETTLE_MS = 15_000
const LIST_MS = 20_000
const CALL = { deadlineMs: 5000, turnMs: 10_000 }
/** What is left after that is recorded untried; failed deletions are retried. */
const REMOVE_MS = 20_000
/** How long a throttled account is retried. Settings under deletion wait for it, and hold up their namespace. */
const TRY_MS = 60_000
const TRY_AGAIN_MS = 5000
/** Codes of an account that may not exist. */
const NO_ANSWERS: ReadonlySet<string> = new Set(['Unreachable', 'TimedOut'])

/** `leftForMs`: time since Davit last started anything in the account. */
type Leaving = { signal: AbortSignal; leftForMs: number }

export class AccountDisconnector {
  readonly #options: AccountDisconnectorOptions

  constructor(options: AccountDisconnectorOptions) {
    this.#options = options
  }

  /** After a switch to another account. With another role in the same account, parameters stay and garbage collection continues. */
  async disconnectPrevious(settings: SecretsSettings, signal: AbortSignal): Promise<void> {
    const { clock } = this.#options
    const before = settings.status?.connected
    const now = connectedTo(settings)
    if (!before || !now || isSameAccount(before, now)) return
    const begin = clock.monotonic()
    for (;;) {
      try {
        return await this.#leave(settings, before, { signal, leftForMs: clock.monotonic() - begin })
      } catch (error) {
        signal.throwIfAborted()
        if (!isTransient(error) || clock.monotonic() + TRY_AGAIN_MS > begin + TRY_MS)
          return this.reportFailure(settings, before, error)
      }
      await sleep(clock, TRY_AGAIN_MS, signal)
    }
  }

  /** For settings that are being deleted. @returns milliseconds until the next try, if there is anything left to try */
  async disconnectAll(settings: SecretsSettings, signal: AbortSignal): Promise<number | undefined> {
    const { clock } = this.#options
    const deletedAt = Date.parse(settings.metadata.deletionTimestamp ?? '') || clock.now()
    const leaving = { signal, leftForMs: Math.max(0, clock.now() - deletedAt) }
    const { connected } = settings.status ?? {}
    const tried = connectedTo(settings)
    const isOver = clock.now() >= deletedAt + TRY_MS
    const retryTried =
      tried &&
      !(connected && isSameAccount(connected, tried)) &&
      (await this.#leaveTried(settings, tried, leaving))
    try {
      if (connected) await this.#leave(settings, connected, leaving)
    } catch (error) {
      signal.throwIfAborted()
      if (connected && (!isTransient(error) || isOver)) this.reportFailure(settings, connected, error)
      else return TRY_AGAIN_MS
    }
    return retryTried && !isOver ? TRY_AGAIN_MS : undefined
  }

  /** A namespace that is being deleted takes no Events any more: the log has it. @throws everything but CloudError */
  reportFailure(settings: SecretsSettings, { roleArn, region }: ConnectedAccount, error: unknown): void {
    if (!(error instanceof CloudError)) throw error
    const { code } = error
    const cause = withPeriod(`${code}: ${error.message}`)
    const message = `Davit failed to list or clean up the parameters in the account (role ${roleArn}, region ${region}): ${cause}`
    const organization = settings.metadata.namespace
    this.#options.log.warn('account_sweep_failed', 'failed to list or clean up parameters in the account', {
      organization,
      roleArn,
      region,
      code,
    })
    this.#options.events.record(settingsEventTarget(settings), {
      type: 'Warning',
      reason: 'SweepFailed',
      message,
    })
  }

  /** An account that was never connected holds at most the parameter of an interrupted probe. @returns whether to try again */
  async #leaveTried(settings: SecretsSettings, tried: ConnectedAccount, leaving: Leaving): Promise<boolean> {
    try {
      await this.#leave(settings, tried, { ...leaving, leftForMs: Number.POSITIVE_INFINITY })
      return false
    } catch (error) {
      leaving.signal.throwIfAborted()
      if (!(error instanceof CloudError)) throw error
      return isTransient(error) && !NO_ANSWERS.has(error.code)
    }
  }

  /** @throws CloudError if the account cannot be listed; ApiError; the signal's reason */
  async #leave(
    settings: SecretsSettings,
    account: ConnectedAccount,
    { signal, leftForMs }: Leaving,
  ): Promise<void> {
    const { accounts, clock, settled } = this.#options
    const access = await accounts.accessTo(settings.metadata.namespace ?? '', account)
    const savesEnd = clock.monotonic() + SAVES_END_MS - leftForMs
    await this.#within(SETTLE_MS, signal, (limit) =>
      unlessAborted(limit, settled(access.organization)).catch(() => undefined),
    )
    await this.#removeListed(access, signal)
    const waitMs = savesEnd - clock.monotonic()
    if (waitMs <= 0) return
    await sleep(clock, waitMs, signal)
    signal.throwIfAborted()
    await this.#removeListed(access, signal)
  }

  async #removeListed(access: CloudAccess, signal: AbortSignal): Promise<void> {
    const { clock, exclusively, isRecorded, listings } = this.#options
    const { organization, region, roleArn } = access
    const listing = await this.#within(LIST_MS, signal, (limit) => listings.list(access, limit))
    const account = parseRoleArn(roleArn)?.account ?? ''
    const until = clock.monotonic() + REMOVE_MS
    const inTime: GarbageOptions['exclusively'] = async (...given) => {
      if (clock.monotonic() > until)
        throw new CloudError('retry', 'TimedOut', 'Davit ran out of time before deleting the parameter.')
      return await exclusively(...given)
    }
    await collectGarbage({ ...this.#options, exclusively: inTime }, access, listing, {
      minAgeMs: 0,
      startAt: 0,
      max: Number.POSITIVE_INFINITY,
      limits: { ...CALL, signal },
      isReferenced: (name, credential) => isRecorded(organization, credential, { name, account, region }),
      failed: async (parameter, error) => {
        // Interrupted, not failed.
        signal.throwIfAborted()
        await this.#recordFailure(access, account, parameter, error)
      },
    })
  }

  /** Only for a parameter that Davit wrote last. */
  async #recordFailure(
    { organization, organizationUid, region, roleArn }: CloudAccess,
    account: string,
    { name, modifiedBy }: ListedParameter,
    error: CloudError,
  ): Promise<void> {
    if (modifiedBy !== sessionArn({ roleArn, organization })) return
    const reason = `${error.code}: ${error.message}`
    const record = { name, account, region, roleArn, organization, organizationUid, reason }
    await this.#options.recordFailedDeletion(record)
    this.#options.metrics.parameterRemoved('orphaned')
  }

  /** @throws CloudError TimedOut, if the work passes on the reason of its signal */
  async #within<T>(ms: number, signal: AbortSignal, work: (limit: AbortSignal) => Promise<T>): Promise<T> {
    const reason = new CloudError('retry', 'TimedOut', 'AWS did not respond in time.')
    return await withDeadline(
      this.#options.clock,
      ms,
      (late) => work(AbortSignal.any([signal, late])),
      reason,
    )
  }
}

export function settingsEventTarget({ metadata }: SecretsSettings) {
  return { apiVersion: API_VERSION, kind: secretsSettingsKind.kind, metadata }
}

function isTransient(error: unknown): boolean {
  return error instanceof CloudError && error.remedy === 'retry'
}

function isSameAccount(a: ConnectedAccount, b: ConnectedAccount): boolean {
  return a.region === b.region && parseRoleArn(a.roleArn)?.account === parseRoleArn(b.roleArn)?.account
}

/**
 * The credential of this name, read live; `unreadable` if a later version of Davit has written what this one cannot read.
 * @throws ApiError
 */
export async function findCredential(
  resources: ResourceReader,
  organization: string,
  name: string,
): Promise<RegistryCredential | 'unreadable' | undefined> {
  const found = await findObject(resources, registryCredentials, { namespace: organization, name })
  return found && (registryCredential.safeParse(found).data ?? 'unreadable')
}

/**
 * Whether a resource of this name has a parameter or may get one; while it is being deleted, it still takes care of its parameter.
 * @throws ApiError
 */
export async function credentialMayStore(
  resources: ResourceReader,
  organization: string,
  name: string,
): Promise<boolean> {
  const found = await findCredential(resources, organization, name)
  return found === 'unreadable' || found?.spec.type === 'token'
}

/**
 * Whether a resource of this name has recorded the parameter. One that has not, because its process ended too early, will not remove the
 * parameter when the account is left. @throws ApiError
 */
export async function credentialHasRecorded(
  resources: ResourceReader,
  organization: string,
  name: string,
  at: ParameterRef,
): Promise<boolean> {
  const found = await findCredential(resources, organization, name)
  if (found === 'unreadable') return true
  const stored = found?.status?.parameter
  return stored?.name === at.name && stored.account === at.account && stored.region === at.region
}
