/**
 * What is known of a credential when the next action is decided, and the actions themselves (plan.ts decides). Pure: time comes in
 * as milliseconds since 1970.
 */
import type {
  CredentialStall,
  CredentialType,
  CredentialWait,
  FailedDeletionRecord,
  StoredParameter,
} from '../../apis/registry-credential.ts'
import { isOtherKey } from '../aws/names.ts'
import { type CloudFailure, failureText, type ListedParameter } from '../cloud.ts'

/** Where the parameter of this credential belongs, and the role to get there. */
export type ParameterLocation = {
  name: string
  region: string
  account: string
  roleArn: string
  kmsKeyId?: string | undefined
}

/**
 * The organization's SecretsSettings, read live: `missing` makes Davit remove what it stored. `location` is where secrets were stored
 * under the connection before this one, if there was one; settings that are being deleted count as missing and still have it.
 */
export type AccountFacts =
  | { state: 'missing'; location?: ParameterLocation | undefined }
  | { state: 'connecting' | 'stalled'; message: string; location?: ParameterLocation | undefined }
  | { state: 'ready'; location: ParameterLocation }

/** The Secret that `spec.secretRef` names. */
export type InputSecretFacts =
  | { state: 'none' | 'missing' | 'no-key' }
  /** Davit has no right to Secrets here. */
  | { state: 'forbidden' }
  | { state: 'wrong-type'; type: string }
  /** Its value cannot be stored; the problem says why without quoting it. */
  | { state: 'problem'; problem: string }
  | UsableInputSecret

/** `mark` stands for this version's value (input-secret.ts). `isSameValue`: it is the value that status.handover records. */
export type UsableInputSecret = {
  state: 'usable'
  uid: string
  resourceVersion: string
  retained: boolean
  mark: string
  isSameValue: boolean
}

/** One version of an input Secret; what status.handover records. `mark`: only if it is retained. */
export type InputSecretRef = { uid: string; resourceVersion: string; mark?: string | undefined }

/** A parameter under the name of a credential that has recorded none. `by`: ARN of its last writer. */
export type FoundParameter = { version: number; type: string; by: string; isOwnSession: boolean }

/** What the last listing of the account says about this parameter. */
export type ListingFacts =
  | { state: 'unknown' }
  /** The status records no parameter; `found` is under the name all the same. */
  | { state: 'unrecorded'; found?: FoundParameter | undefined }
  /** `staleSince`: the listing is too old to rule out a change since, milliseconds since 1970. */
  | { state: 'recorded'; drift: ParameterDrift; staleSince?: number }

/** Who owns the parameter under the name, by its tags; `absent` if the cloud says that there is none. */
export type Ownership = 'unknown' | 'ours' | 'not-ours' | 'absent'

/** What the actions of this pass found out; reset after each action that leads to another parameter or version. */
export type ReconcileFacts = {
  owner: Ownership
  /** Of the last call to the cloud; a call that succeeds clears it. */
  failure?: CloudFailure | undefined
  removed: boolean
  failedDeletionRecorded: boolean
}

export const NO_RECONCILE_FACTS: ReconcileFacts = {
  owner: 'unknown',
  removed: false,
  failedDeletionRecorded: false,
}

export type CredentialFacts = {
  now: number
  type: CredentialType
  createdAt: number
  /** When the parameter was last written, as far as the status tells. */
  writtenAt: number
  /** Davit generated the name (REST does): no earlier credential had it, so a parameter of that name is this credential's. */
  generatedName: boolean
  /** Absent: not being deleted. */
  deletedAt?: number | undefined
  hasFinalizer: boolean
  /** A problem of the namespace or the spec; while there is one, nothing else is done. */
  problem?: { reason: CredentialStall; message: string } | undefined
  account: AccountFacts
  secretName?: string | undefined
  inputSecret: InputSecretFacts
  /** An older credential that names the same Secret. */
  sharedWith?: string | undefined
  stored?: StoredParameter | undefined
  storedInputSecret?: InputSecretRef | undefined
  /** The newest version in the account may belong to fields that are not written yet (hasPendingFields in spec.ts). */
  hasPendingFields: boolean
  /** Its parameter was in an account that it has left: this pass has forgotten it, or the condition Stored says so. */
  moved: boolean
  listing: ListingFacts
  pass: ReconcileFacts
}

/** The next action; `reason` is for the log. */
export type CredentialAction =
  | { step: 'nothing'; reason: string }
  | { step: 'refuse'; reason: CredentialStall; message: string }
  /** `until`: set if time alone changes the answer. */
  | { step: 'wait'; reason: CredentialWait; message: string; until?: number }
  | { step: 'add-finalizer' | 'drop-finalizer' | 'forget' | 'list'; reason: string }
  | { step: 'look' | 'remove' | 'record-failed-deletion'; at: ParameterLocation; reason: string }
  | { step: 'put-new' | 'put-version'; at: ParameterLocation; inputSecret: InputSecretRef; reason: string }
  | { step: 'adopt'; at: ParameterLocation; version: number; reason: string }
  | { step: 'delete-input-secret' | 'record-input-secret'; inputSecret: InputSecretRef; reason: string }

/** Whether its value is the one that was stored last. A Secret that was recreated under its name counts as new. */
export function isStoredInputSecret(found: UsableInputSecret, stored: InputSecretRef | undefined): boolean {
  if (stored?.uid !== found.uid) return false
  return stored.resourceVersion === found.resourceVersion || found.isSameValue
}

/** Whether the owner has provided a value that is not stored. */
export function isPendingInputSecret(found: InputSecretFacts, stored: InputSecretRef | undefined): boolean {
  if (found.state === 'none' || found.state === 'missing' || found.state === 'forbidden') return false
  return found.state !== 'usable' || !isStoredInputSecret(found, stored)
}

/** Whether another writer changed the parameter. Overwriting a foreign value would take the secret, which Davit does not have. */
export type ParameterDrift =
  | { kind: 'none' | 'missing' }
  /** Davit wrote this version and ended before it could record it. */
  | { kind: 'adopt'; version: number }
  /** Newer versions exist next to ours, which is still the one that boxes read. */
  | { kind: 'changed'; by: string; version: number }
  /** Another writer recreated it: our version is gone. */
  | { kind: 'replaced'; by: string; version: number; type: string }
  | { kind: 'key'; by: string; key: string }

export type DriftView = {
  stored: StoredParameter
  /** Absent: the listing does not have it. */
  listed?: Omit<ListedParameter, 'modifiedAt'> | undefined
  storedAt: number
  listedAt: number
  /** ARNs of this organization's sessions: of the role that wrote the parameter, and of the current one. */
  ownSessions: readonly string[]
}

/** A listing may be older than the write before it. */
const LISTING_LAG_MS = 60_000

/** Compares version, type, key and last writer, which a listing shows without the value. */
export function parameterDrift(view: DriftView): ParameterDrift {
  const { stored, listed, storedAt, listedAt, ownSessions } = view
  if (listed === undefined) return { kind: listedAt - storedAt < LISTING_LAG_MS ? 'none' : 'missing' }
  const { version, type, modifiedBy: by } = listed
  const isOurs = ownSessions.includes(by)
  if (type !== 'SecureString') return { kind: 'replaced', by, version, type }
  if (version > stored.version) return isOurs ? { kind: 'adopt', version } : { kind: 'changed', by, version }
  if (!isOurs) return { kind: 'replaced', by, version, type }
  // An older version of our own is a listing that lags.
  if (version === stored.version && isOtherKey(stored.kmsKeyId, listed.kmsKeyId))
    return { kind: 'key', by, key: listed.kmsKeyId ?? '' }
  return { kind: 'none' }
}

/** A write of another process takes a few seconds to show; before that, "not there" means nothing. */
export const VISIBLE_AFTER_MS = 10_000
/** Clocks of two processes differ by less; a time that is further ahead is no time. */
const SKEW_MS = 60_000

/** Undefined: what is not listed does not exist. Without the wait, a parameter that REST just wrote would look removed. */
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

/** How the removal of a parameter ended. Every removal ends, and one that failed is on record (interface §4.1). */
export type DeletionOutcome =
  | { outcome: 'deleted' }
  | { outcome: 'not-found' }
  | { outcome: 'orphaned'; failedDeletion: FailedDeletion }

/** A parameter that may still exist, with all it takes to remove it by hand or later. */
type FailedDeletion = Omit<FailedDeletionRecord, 'organization' | 'organizationUid' | 'recordedAt'>

/** Why a deletion failed although no call did. */
export const NOT_OURS = 'its tags are not those of this organization any more'

export function failedDeletionReason(failure: CloudFailure | undefined): string {
  return failure === undefined ? NOT_OURS : failureText(failure)
}

export function deletionMessage(name: string, result: DeletionOutcome): string {
  if (result.outcome === 'deleted') return `Removed the parameter ${name}.`
  if (result.outcome === 'not-found') return `The parameter ${name} was not there any more.`
  const { account, region, reason } = result.failedDeletion
  return (
    `Could not remove the parameter ${name} in account ${account}, region ${region}: ${reason}. It is on the list of ` +
    'orphaned parameters and tried again; an administrator of the account can remove it.'
  )
}
