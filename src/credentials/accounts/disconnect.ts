import {
  type FailedDeletionRecord,
  registryCredential,
  registryCredentials,
} from '../../apis/registry-credential.ts'
import type { ConnectedAccount, SecretsSettings } from '../../apis/secrets-settings.ts'
import { findObject, type ResourceReader } from '../../kube/client.ts'
import type { EventRecorder } from '../../kube/recorder.ts'
import type { Clock } from '../../lib/clock.ts'
import { sleep } from '../../lib/sleep.ts'
import { parseRoleArn } from '../aws/names.ts'
import { sessionArn } from '../aws/policies.ts'
import { type CloudAccess, CloudError, type ListedParameter } from '../cloud.ts'
import { type AccountListings, collectGarbage, type GarbageOptions } from './garbage.ts'
import { connectedTo } from './plan.ts'
import { settingsEventTarget } from './status.ts'

/**
 * Before an account is left, what nobody will speak of is removed from it: what a credential has recorded it takes along itself.
 * It ends whatever the cloud says, and what stays is on the list of orphaned parameters.
 */

/** A parameter, and where it is. */
type ParameterRef = { name: string; account: string; region: string }

type DisconnectOptions = GarbageOptions & {
  listings: AccountListings
  clock: Clock
  /** Whether a resource has recorded this very parameter, read live. */
  isRecorded: (organization: string, credential: string, at: ParameterRef) => Promise<boolean>
  /** Durable when it resolves. */
  recordFailedDeletion: (orphan: Omit<FailedDeletionRecord, 'recordedAt'>) => Promise<void>
  /** Resolves when what is under way in this process for credentials of the organization has ended. */
  settled: (organization: string) => Promise<void>
}

/** What the REST API had begun before the account was left, and stores there, has ended by then, and shows. */
const SAVES_END_MS = 15_000
/** A credential under way waits for no turn any more by then. */
const SETTLE_MS = 15_000
const LIST_MS = 20_000
const CALL = { deadlineMs: 5000, turnMs: 10_000 }
/** What is left after that is recorded and not tried: there is a sweep of orphans. */
const REMOVE_MS = 20_000

/**
 * @param leftForMs for so long nothing new was begun there
 * @returns how many were removed @throws CloudError when it cannot be listed; ApiError; the reason of the signal
 */
async function disconnectAccount(
  options: DisconnectOptions,
  access: CloudAccess,
  { signal, leftForMs }: { signal: AbortSignal; leftForMs: number },
): Promise<number> {
  const { clock } = options
  const savesEnd = clock.monotonic() + SAVES_END_MS - leftForMs
  await within(clock, SETTLE_MS, signal, (limit) =>
    settledOrAborted(options.settled(access.organization), limit),
  )
  const removed = await removeListed(options, access, signal)
  const waitMs = savesEnd - clock.monotonic()
  if (waitMs <= 0) return removed
  await sleep(clock, waitMs, signal)
  signal.throwIfAborted()
  return removed + (await removeListed(options, access, signal))
}

async function removeListed(
  options: DisconnectOptions,
  access: CloudAccess,
  signal: AbortSignal,
): Promise<number> {
  const { clock, listings } = options
  const { organization, region } = access
  const listing = await within(clock, LIST_MS, signal, (limit) => listings.list(access, limit))
  const account = parseRoleArn(access.roleArn)?.account ?? ''
  const until = clock.monotonic() + REMOVE_MS
  const late = async () => {
    if (clock.monotonic() > until) throw new CloudError('retry', 'TimedOut', 'There was no time left for it.')
  }
  return await collectGarbage(
    { ...options, exclusively: (...of) => late().then(() => options.exclusively(...of)) },
    access,
    {
      listing,
      sweep: {
        minAgeMs: 0,
        begin: 0,
        most: Number.POSITIVE_INFINITY,
        limits: { ...CALL, signal },
        isReferenced: (name, credential) =>
          options.isRecorded(organization, credential, { name, account, region }),
        failed: async (parameter, error) => {
          // Given up, and not failed.
          signal.throwIfAborted()
          await recordUndeleted(options, access, { parameter, account, error })
        },
      },
    },
  )
}

/** What somebody else wrote is theirs. */
async function recordUndeleted(
  { recordFailedDeletion: record, metrics }: DisconnectOptions,
  access: CloudAccess,
  found: { parameter: ListedParameter; account: string; error: CloudError },
): Promise<void> {
  const { organization, organizationUid, region, roleArn } = access
  const { parameter, account, error } = found
  if (parameter.modifiedBy !== sessionArn({ roleArn, organization })) return
  const reason = `${error.code}: ${error.message}`
  await record({ name: parameter.name, account, region, roleArn, organization, organizationUid, reason })
  metrics.parameterRemoved('orphaned')
}

async function within<T>(
  clock: Clock,
  ms: number,
  signal: AbortSignal,
  work: (limit: AbortSignal) => Promise<T>,
): Promise<T> {
  const timer = new AbortController()
  const reason = new CloudError('retry', 'TimedOut', 'There was no answer in time.')
  const stop = clock.after(ms, () => timer.abort(reason))
  try {
    return await work(AbortSignal.any([signal, timer.signal]))
  } finally {
    stop()
  }
}

/** Whichever comes first. */
function settledOrAborted(work: Promise<void>, limit: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    void work.then(resolve, () => resolve())
    limit.addEventListener('abort', () => resolve(), { once: true })
  })
}

/** When and how long the accounts that settings speak of are left: it ends whatever the cloud says. */

export type AccountDisconnectorOptions = DisconnectOptions & { events: EventRecorder }

/** So long an account that is asked too much is tried again. Deleted settings wait for it, and hold up their namespace. */
const TRY_MS = 60_000
const TRY_AGAIN_MS = 5000
/** Of an account that nobody may be behind. */
const NO_ANSWERS: ReadonlySet<string> = new Set(['Unreachable', 'TimedOut'])

type Leaving = { signal: AbortSignal; leftForMs: number }

export class AccountDisconnector {
  readonly #options: AccountDisconnectorOptions

  constructor(options: AccountDisconnectorOptions) {
    this.#options = options
  }

  /** In the account that stays another role has come to it: what is there stays, and the sweep goes on. */
  async disconnectPrevious(settings: SecretsSettings, signal: AbortSignal): Promise<void> {
    const { clock } = this.#options
    const before = settings.status?.connected
    const now = connectedTo(settings)
    if (!before || !now || isSamePlace(before, now)) return
    const begin = clock.monotonic()
    for (;;) {
      const leftForMs = clock.monotonic() - begin
      try {
        return await this.#leave(settings, before, { signal, leftForMs })
      } catch (error) {
        signal.throwIfAborted()
        if (!isTransient(error) || clock.monotonic() + TRY_AGAIN_MS > begin + TRY_MS)
          return this.reportFailure(settings, before, error)
      }
      await sleep(clock, TRY_AGAIN_MS, signal)
    }
  }

  /** Of settings that are deleted. @returns when to come again, if anything is left to try */
  async disconnectAll(settings: SecretsSettings, signal: AbortSignal): Promise<number | undefined> {
    const { clock } = this.#options
    const deletedAt = Date.parse(settings.metadata.deletionTimestamp ?? '') || clock.now()
    const leaving = { signal, leftForMs: Math.max(0, clock.now() - deletedAt) }
    const { connected } = settings.status ?? {}
    const tried = connectedTo(settings)
    const isOver = clock.now() >= deletedAt + TRY_MS
    const triedAgain =
      tried &&
      !(connected && isSamePlace(connected, tried)) &&
      (await this.#leaveTried(settings, tried, leaving))
    try {
      if (connected) await this.#leave(settings, connected, leaving)
    } catch (error) {
      signal.throwIfAborted()
      if (connected && (!isTransient(error) || isOver)) this.reportFailure(settings, connected, error)
      else return TRY_AGAIN_MS
    }
    return triedAgain && !isOver ? TRY_AGAIN_MS : undefined
  }

  /** In a namespace that is being deleted there are no Events any more: the log has it. @throws what is no CloudError */
  reportFailure(settings: SecretsSettings, { roleArn, region }: ConnectedAccount, error: unknown): void {
    if (!(error instanceof CloudError)) throw error
    const { code } = error
    const message = `What the account holds could not be looked through (${roleArn}, ${region}): ${code}: ${error.message}`
    const organization = settings.metadata.namespace
    this.#options.log.warn('An account could not be looked through', { organization, roleArn, region, code })
    this.#options.events.record(settingsEventTarget(settings), {
      type: 'Warning',
      reason: 'SweepFailed',
      message,
    })
  }

  /** Where nothing was put but by the first try, which may have ended half way. @returns whether to try again */
  async #leaveTried(settings: SecretsSettings, tried: ConnectedAccount, leaving: Leaving): Promise<boolean> {
    try {
      // Nothing is saved in an account that was never connected.
      await this.#leave(settings, tried, { ...leaving, leftForMs: Number.POSITIVE_INFINITY })
      return false
    } catch (error) {
      leaving.signal.throwIfAborted()
      if (!(error instanceof CloudError)) throw error
      return isTransient(error) && !NO_ANSWERS.has(error.code)
    }
  }

  async #leave(settings: SecretsSettings, place: ConnectedAccount, leaving: Leaving): Promise<void> {
    const access = await this.#options.accounts.accessTo(settings.metadata.namespace ?? '', place)
    await disconnectAccount(this.#options, access, leaving)
  }
}

function isTransient(error: unknown): boolean {
  return error instanceof CloudError && error.remedy === 'retry'
}

function isSamePlace(a: ConnectedAccount, b: ConnectedAccount): boolean {
  return a.region === b.region && parseRoleArn(a.roleArn)?.account === parseRoleArn(b.roleArn)?.account
}

/**
 * Whether there is a resource of this name now that has a parameter, or may be given one; one that is being deleted takes care
 * of it itself. @throws ApiError
 */
export async function credentialMayStore(
  resources: ResourceReader,
  organization: string,
  name: string,
): Promise<boolean> {
  const found = await findObject(resources, registryCredentials, { namespace: organization, name })
  if (found === undefined) return false
  const { data } = registryCredential.safeParse(found)
  // One of a later version of Davit may say what this one cannot read.
  return data === undefined || data.spec.type === 'token'
}

/**
 * Whether a resource of this name has recorded the parameter. One that has not cannot take it along when the account is left: its
 * process ended before it could say where the secret is. @throws ApiError
 */
export async function credentialHasRecorded(
  resources: ResourceReader,
  { organization, credential }: { organization: string; credential: string },
  at: ParameterRef,
): Promise<boolean> {
  const found = await findObject(resources, registryCredentials, {
    namespace: organization,
    name: credential,
  })
  if (found === undefined) return false
  const { data } = registryCredential.safeParse(found)
  // One of a later version of Davit may say what this one cannot read.
  if (data === undefined) return true
  const stored = data.status?.parameter
  return stored?.name === at.name && stored.account === at.account && stored.region === at.region
}
