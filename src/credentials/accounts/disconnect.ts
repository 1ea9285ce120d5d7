/**
 * Before an account is left, what nobody will speak of is removed from it: what a credential has recorded it takes along itself.
 * It ends whatever the cloud says, and what stays is on the list of orphaned parameters.
 */
import type { FailedDeletionRecord } from '../../apis/orphaned-parameter.ts'
import type { Clock } from '../../lib/ports-clock.ts'
import { sleep } from '../../lib/sleep.ts'
import { sessionArn } from '../aws/policies.ts'
import { parseRoleArn } from '../aws/role-arn.ts'
import type { CloudAccess, ListedParameter } from '../cloud.ts'
import { CloudError } from '../cloud-error.ts'
import type { AccountListings } from './account-listings.ts'
import { collectGarbage, type GarbageOptions } from './garbage.ts'

/** A parameter, and where it is. */
export type ParameterRef = { name: string; account: string; region: string }

export type DisconnectOptions = GarbageOptions & {
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
export async function disconnectAccount(
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
