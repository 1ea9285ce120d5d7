import type {
  CredentialStall,
  CredentialType,
  CredentialWait,
  StoredParameter,
} from '../../apis/registry-credential.ts'
import { isOtherKey } from '../aws/names.ts'
import { type CloudFailure, failureText } from '../cloud.ts'

/**
 * Whether somebody else changed a parameter, without reading it: a listing shows its version, type, key and who wrote last.
 * Writing anew the value that somebody else wrote over would need the secret, which Davit does not have.
 */

/** A parameter as a listing shows it. */
export type ListedEntry = {
  name: string
  version: number
  type: string
  kmsKeyId?: string | undefined
  /** ARN of who wrote last. */
  modifiedBy: string
}

export type ParameterDrift =
  | { kind: 'none' }
  /** Davit wrote this version and ended before it could say so. */
  | { kind: 'adopt'; version: number }
  | { kind: 'missing' }
  /** Newer versions beside ours, which still is the one that boxes read. */
  | { kind: 'changed'; by: string; version: number }
  /** Made anew by somebody else: our version is gone. */
  | { kind: 'replaced'; by: string; version: number; type: string }
  | { kind: 'key'; by: string; key: string }

export type DriftView = {
  stored: StoredParameter
  /** Absent: the listing does not have it. */
  listed?: ListedEntry | undefined
  /** Since when ours is there, and when was listed; milliseconds since 1970. */
  storedAt: number
  listedAt: number
  /** ARNs of the sessions of this organization: of the role that wrote it, and of the one that holds now. */
  ownSessions: readonly string[]
}

/** Listings may be older than the write before them. */
const LAG_MS = 60_000

export function parameterDrift({
  stored,
  listed,
  storedAt,
  listedAt,
  ownSessions,
}: DriftView): ParameterDrift {
  const lags = listedAt - storedAt < LAG_MS
  if (listed === undefined) return lags ? { kind: 'none' } : { kind: 'missing' }
  const { version, type, modifiedBy: by } = listed
  const ours = ownSessions.includes(by)
  if (type !== 'SecureString') return { kind: 'replaced', by, version, type }
  if (ours && version > stored.version) return { kind: 'adopt', version }
  if (!ours && version > stored.version) return { kind: 'changed', by, version }
  if (!ours) return { kind: 'replaced', by, version, type }
  // An older version of our own is a listing that lags.
  if (version === stored.version && isOtherKey(stored.kmsKeyId, listed.kmsKeyId))
    return { kind: 'key', by, key: listed.kmsKeyId ?? '' }
  return { kind: 'none' }
}

/** What is known of a credential when the next step is decided (credential-plan.ts). */

/** Where the parameter of this credential belongs, and how to get there. */
export type ParameterLocation = {
  name: string
  region: string
  account: string
  roleArn: string
  kmsKeyId?: string | undefined
}

/**
 * The organization's SecretsSettings, read live: `missing` makes Davit remove what it stored.
 * `place`: what was connected before, if anything was; settings that are being deleted are missing, and still tell it.
 */
export type AccountFacts =
  | { state: 'missing'; place?: ParameterLocation | undefined }
  | { state: 'connecting' | 'stalled'; message: string; place?: ParameterLocation | undefined }
  | { state: 'ready'; place: ParameterLocation }

/** The Secret that `spec.secretRef` names. */
export type InputSecretFacts =
  | { state: 'none' }
  | { state: 'missing' }
  /** Davit has no right to Secrets here. */
  | { state: 'forbidden' }
  | { state: 'wrong-type'; type: string }
  | { state: 'no-key' }
  /** The value is not one that can be stored; the problem says why without it. */
  | { state: 'problem'; problem: string }
  | UsableInputSecret

/** `mark` stands for the value in this version of it (handover-mark.ts), `isSameValue`: it is the one that status.handover speaks of. */
export type UsableInputSecret = {
  state: 'usable'
  uid: string
  resourceVersion: string
  retained: boolean
  mark: string
  isSameValue: boolean
}

/** status.handover. */
export type StoredInputSecret = { uid: string; resourceVersion: string; mark?: string | undefined }

/** A parameter under the name of a credential that has recorded none. */
export type FoundParameter = {
  version: number
  type: string
  /** ARN of who wrote it last, and whether that is the session of this organization. */
  by: string
  isOwnSession: boolean
}

/** What the last listing of the organization says of this parameter. */
export type ListingFacts =
  | { state: 'unknown' }
  /** Nothing is recorded in the status: what is under the name. */
  | { state: 'unrecorded'; found?: FoundParameter | undefined }
  /** `staleSince`: it is so old that something may have changed since, milliseconds since 1970. */
  | { state: 'recorded'; drift: ParameterDrift; staleSince?: number }

/** Whose the parameter under the name is, by its tags; `absent` where the cloud says that it is gone. */
export type Ownership = 'unknown' | 'ours' | 'not-ours' | 'absent'

/**
 * What the steps of this pass found out. It begins as `NEW_PASS`, and does so again after `forget`, `adopt`, `put-new` and
 * `put-version`, since then it would speak of another parameter or version.
 */
export type ReconcileFacts = {
  owner: Ownership
  /** Of the last call to the cloud, where that failed; one that succeeds clears it. */
  failure?: CloudFailure | undefined
  removed: boolean
  failedDeletionRecorded: boolean
}

export type CredentialFacts = {
  /** Milliseconds since 1970. */
  now: number
  type: CredentialType
  createdAt: number
  /** When anybody wrote the parameter last, as far as the status tells. */
  writtenAt: number
  /** Davit made the name, as it does for REST: no credential before had it, so a parameter of that name is its own. */
  generatedName: boolean
  /** Absent: not being deleted. */
  deletedAt?: number | undefined
  hasFinalizer: boolean
  /** What is wrong with namespace or spec; no step follows while it is. */
  problem?: { reason: CredentialStall; message: string } | undefined
  account: AccountFacts
  secretName?: string | undefined
  inputSecret: InputSecretFacts
  /** Name of an older credential that names the same Secret. */
  sharedWith?: string | undefined
  /** status.parameter and status.handover. */
  stored?: StoredParameter | undefined
  storedInputSecret?: StoredInputSecret | undefined
  /** The newest version in the account may be one whose fields were not written (awaited-fields.ts). */
  hasPendingFields: boolean
  /** It had a parameter in an account that it has left: this pass has forgotten it, or the condition Stored says so. */
  moved: boolean
  listing: ListingFacts
  pass: ReconcileFacts
}

export const NO_RECONCILE_FACTS: ReconcileFacts = {
  owner: 'unknown',
  removed: false,
  failedDeletionRecorded: false,
}

/** What a controller does next for a credential (credential-plan.ts), and what it was asked to do last. */

/** Every step has its reason, for the log. */
export type CredentialAction =
  | { step: 'nothing'; reason: string }
  | { step: 'refuse'; reason: CredentialStall; message: string }
  /** `until` where time alone changes the answer. */
  | { step: 'wait'; reason: CredentialWait; message: string; until?: number }
  | { step: 'add-finalizer' | 'drop-finalizer' | 'forget' | 'list'; reason: string }
  | { step: 'look' | 'remove' | 'record-orphan'; at: ParameterLocation; reason: string }
  | { step: 'put-new' | 'put-version'; at: ParameterLocation; handover: InputSecretRef; reason: string }
  | { step: 'adopt'; at: ParameterLocation; version: number; reason: string }
  | { step: 'delete-handover' | 'note-handover'; handover: InputSecretRef; reason: string }

/** The very object whose value was, or is to be, stored. `mark`: of one that is retained. */
export type InputSecretRef = { uid: string; resourceVersion: string; mark?: string | undefined }

/** What a hand-over Secret that is there means for what is stored. */

/** Whether its value is the one that was stored last; one that was made anew under its name is a new one. */
export function isStoredInputSecret(
  found: UsableInputSecret,
  stored: StoredInputSecret | undefined,
): boolean {
  if (stored?.uid !== found.uid) return false
  return stored.resourceVersion === found.resourceVersion || found.isSameValue
}

/** Whether something is handed over that is not stored. */
export function isPendingInputSecret(
  found: InputSecretFacts,
  stored: StoredInputSecret | undefined,
): boolean {
  if (found.state === 'none' || found.state === 'missing' || found.state === 'forbidden') return false
  return found.state !== 'usable' || !isStoredInputSecret(found, stored)
}

/**
 * What another process has just written is not shown at once: that nothing is there means something only a while after the last
 * write. Without that a parameter of the REST API would be taken for one that somebody has removed.
 */

/** Seen are a few seconds. */
export const VISIBLE_AFTER_MS = 10_000
/** Clocks of two processes differ by less; a time that is further ahead is no time. */
const SKEW_MS = 60_000

/** Undefined: what is not shown is not there. */
export function waitUntilVisible({
  writtenAt,
  now,
}: Pick<CredentialFacts, 'writtenAt' | 'now'>): CredentialAction | undefined {
  const until = writtenAt + VISIBLE_AFTER_MS
  if (now >= until || writtenAt > now + SKEW_MS) return undefined
  const message =
    'The account does not show the parameter, which may have been written a moment ago. Davit looks again.'
  return { step: 'wait', reason: 'Storing', message, until }
}

/** How the removal of a parameter ended: every one ends, and what could not be removed is named (interface §4.1). */

export type DeletionOutcome =
  | { outcome: 'deleted' }
  | { outcome: 'not-found' }
  | { outcome: 'orphaned'; orphan: FailedDeletion }

/** A parameter that may still be there, with all that is needed to remove it by hand or later. */
export type FailedDeletion = {
  name: string
  account: string
  region: string
  roleArn: string
  reason: string
}

/** Why an orphan is one, where no call failed. */
export const NOT_OURS = 'its tags are not those of this organization any more'

export function failedDeletionReason(failure: CloudFailure | undefined): string {
  return failure === undefined ? NOT_OURS : failureText(failure)
}

/** For the Event that records it. */
export function deletionMessage(name: string, result: DeletionOutcome): string {
  if (result.outcome === 'deleted') return `Removed the parameter ${name}.`
  if (result.outcome === 'not-found') return `The parameter ${name} was not there any more.`
  const { account, region, reason } = result.orphan
  return (
    `Could not remove the parameter ${name} in account ${account}, region ${region}: ${reason}. It is on the list of ` +
    'orphaned parameters and tried again; an administrator of the account can remove it.'
  )
}
