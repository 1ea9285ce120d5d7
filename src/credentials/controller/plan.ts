/**
 * The next action for a credential. The controller gathers the facts, asks, applies the action, and asks again with what it found out,
 * until the answer is `nothing`, `refuse` or `wait`. An action may be repeated: after a crash the facts lead to the same one.
 *
 *   nothing stored --put-new--> stored                      (name free; the input Secret or the REST request has the value)
 *   nothing stored --put-new, name taken by us--look, remove, put-new--> stored   (no version of a predecessor stays)
 *   nothing stored --name taken by others--> refused (ParameterNotOwned)
 *   nothing stored --the listing has ours--look, adopt--> stored   (a crash between account and status)
 *   stored --the value of the input Secret changed--look, put-version--> stored, next version
 *   stored --anything else of it changed, or it was created again--record-input-secret--> stored
 *   stored --its value is stored, and Davit need not keep it--delete-input-secret--> stored
 *   stored --another account or region, or no settings--look, remove | record-failed-deletion, forget--> nothing stored
 *   stored, or unknown --deleted--look, remove | record-failed-deletion, drop-finalizer--> gone, at most 60 s later
 *
 * `look` reads the tags: a parameter is removed or overwritten only after this pass has checked its owner.
 * Times are in milliseconds since 1970.
 */
import type {
  CredentialStall,
  CredentialType,
  CredentialWait,
  FailedDeletionRecord,
  StoredParameter,
} from '../../apis/registry-credential.ts'
import { withPeriod } from '../../lib/text.ts'
import { isOtherKey } from '../aws/names.ts'
import { type CloudFailure, failureText, type ListedParameter } from '../cloud.ts'
import {
  type InputSecretFacts,
  type InputSecretRef,
  inputSecretToStore,
  isForAll,
  isKept,
  isStoredInputSecret,
  planStoredInputSecret,
  type StoredInputSecretAction,
  type UsableInputSecret,
} from './input-secret-plan.ts'

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
  | StoredInputSecretAction

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
function waitUntilVisible({
  writtenAt,
  now,
}: Pick<CredentialFacts, 'writtenAt' | 'now'>): CredentialAction | undefined {
  const until = writtenAt + VISIBLE_AFTER_MS
  if (now >= until || writtenAt > now + SKEW_MS) return undefined
  const message =
    'The parameter is not visible in the account yet, possibly because it was just written. Davit will check again.'
  return { step: 'wait', reason: 'Storing', message, until }
}

/** How the removal of a parameter ended. Every removal ends, and one that failed is on record (interface §4.1). */
export type DeletionOutcome =
  | { outcome: 'deleted' }
  | { outcome: 'not_found' }
  | { outcome: 'orphaned'; failedDeletion: FailedDeletion }

/** A parameter that may still exist, with all it takes to remove it by hand or later. */
type FailedDeletion = Omit<FailedDeletionRecord, 'organization' | 'organizationUid' | 'recordedAt'>

/** Why a deletion failed although no call did. */
export const NOT_OURS = 'its tags no longer match this organization'

export function failedDeletionReason(failure: CloudFailure | undefined): string {
  return failure === undefined ? NOT_OURS : failureText(failure)
}

export function deletionMessage(name: string, result: DeletionOutcome): string {
  if (result.outcome === 'deleted') return `Davit deleted the parameter ${name}.`
  if (result.outcome === 'not_found') return `The parameter ${name} had already been deleted.`
  const { account, region, reason } = result.failedDeletion
  return (
    `Davit failed to delete the parameter ${name} in account ${account}, region ${region}: ${withPeriod(reason)} Davit added the ` +
    'parameter to the list of orphaned parameters and will keep trying to delete it. An account administrator can also delete it.'
  )
}

export function nextAction(facts: CredentialFacts): CredentialAction {
  if (facts.deletedAt !== undefined) return planRemoval(facts, facts.deletedAt)
  if (facts.problem) return { step: 'refuse', ...facts.problem }
  if (facts.type === 'ecr') return { step: 'nothing', reason: 'ecr stores nothing' }
  if (!facts.hasFinalizer) return { step: 'add-finalizer', reason: 'before anything is stored' }
  return planAccountChange(facts) ?? planStored(facts)
}

function actionAfterFailure(failure: CloudFailure): CredentialAction {
  const text = failureText(failure)
  // Gone since this pass looked: the next one finds the name free.
  if (failure.remedy === 'retry' || failure.remedy === 'gone') return waitForCloud(failure)
  if (failure.remedy === 'permissions')
    return refuse(
      'AccessDenied',
      `${text}. Compare the role's permissions policy with status.writerPolicy in the SecretsSettings.`,
    )
  return refuse(
    'CloudRefused',
    `${text}. Davit will retry when the credential or the SecretsSettings object changes.`,
  )
}

function waitForCloud(failure: CloudFailure | undefined): CredentialAction {
  const text = failure ? `${failureText(failure)}. ` : ''
  return { step: 'wait', reason: 'CloudUnavailable', message: `${text}Davit will retry.` }
}

function refuse(reason: CredentialStall, message: string): Extract<CredentialAction, { step: 'refuse' }> {
  return { step: 'refuse', reason, message }
}

/** How long a credential may be without a parameter while the request that created it writes its status. */
const BIRTH_MS = 30_000

/**
 * REST stores the secret before the status. A credential that REST created and that has no parameter in its status is still being written,
 * or its process ended; a parameter under its name is adopted only if all of it is as Davit makes it. Undefined: there is none.
 */
function planAdoption(facts: CredentialFacts): CredentialAction | undefined {
  const { account, listing, createdAt, now, pass } = facts
  const found = listing.state === 'unrecorded' ? listing.found : undefined
  if (account.state === 'ready' && found && pass.owner !== 'absent')
    return planFound(facts, account.location, found)
  const until = createdAt + BIRTH_MS
  if (now < until) return { step: 'wait', reason: 'Storing', message: 'The secret is being stored.', until }
  if (pass.failure) return actionAfterFailure(pass.failure)
  return listing.state === 'unknown'
    ? { step: 'list', reason: 'it may exist without being recorded' }
    : undefined
}

function planFound(
  { pass }: CredentialFacts,
  at: ParameterLocation,
  found: FoundParameter,
): CredentialAction {
  const { version, type, isOwnSession } = found
  if (type !== 'SecureString' || !isOwnSession) return notOurs(at, found)
  if (pass.failure) return actionAfterFailure(pass.failure)
  if (pass.owner === 'unknown') return { step: 'look', at, reason: 'whether it is ours' }
  if (pass.owner === 'not-ours') return notOurs(at, found)
  return { step: 'adopt', at, version, reason: 'it exists but is not recorded' }
}

function notOurs({ name, account, region }: ParameterLocation, found: FoundParameter): CredentialAction {
  const { version, type, by } = found
  const what = `${type || 'no type'}, version ${version}, last written by ${by || 'an unknown writer'}`
  return refuse(
    'ParameterNotOwned',
    `Davit has no record of a stored secret, but the parameter ${name} (${what}) already exists in account ${account}, region ${region}, and Davit did not create it for this organization. Delete the parameter, then provide the secret again.`,
  )
}

/** How long after its deletion a credential may wait for the cloud, which holds up its namespace. */
const REMOVAL_LIMIT_MS = 60_000
const REMOVAL_RETRY_MS = 5000

/**
 * For a credential that is being deleted (interface §4.1: best effort). It ends whatever the cloud says: the parameter is removed, or absent,
 * or recorded as a failed deletion; only then the finalizer goes.
 */
function planRemoval(facts: CredentialFacts, deletedAt: number): CredentialAction {
  const { pass, stored } = facts
  if (!facts.hasFinalizer) return { step: 'nothing', reason: 'nothing holds it' }
  if (pass.removed) return { step: 'drop-finalizer', reason: 'the parameter is removed' }
  if (pass.failedDeletionRecorded)
    return { step: 'drop-finalizer', reason: 'the parameter is recorded as an orphan' }
  const at = removalTarget(facts)
  if (at === undefined)
    return { step: 'drop-finalizer', reason: 'nothing was stored, and there is no account' }
  const limit = deletedAt + REMOVAL_LIMIT_MS
  if (pass.failure) return planFailedRemoval(facts, at, limit)
  switch (pass.owner) {
    case 'unknown':
      return { step: 'look', at, reason: 'whether it is ours' }
    case 'ours':
      return { step: 'remove', at, reason: 'the credential is deleted' }
    case 'absent':
      return (
        (facts.now < limit && waitUntilVisible(facts)) || {
          step: 'drop-finalizer',
          reason: 'there is no parameter',
        }
      )
    case 'not-ours':
      // Never recorded: it was there before. Recorded: another writer changed its tags, or recreated it.
      return stored
        ? { step: 'record-failed-deletion', at, reason: NOT_OURS }
        : { step: 'drop-finalizer', reason: 'the parameter of this name is not ours' }
  }
}

function planFailedRemoval(
  { pass, now }: CredentialFacts,
  at: ParameterLocation,
  limit: number,
): CredentialAction {
  const reason = failedDeletionReason(pass.failure)
  if (pass.failure?.remedy !== 'retry' || now >= limit) return { step: 'record-failed-deletion', at, reason }
  const message = `Davit is deleting the parameter. The last error was: ${withPeriod(reason)}`
  const until = Math.min(now + REMOVAL_RETRY_MS, limit)
  return { step: 'wait', reason: 'CloudUnavailable', message, until }
}

/**
 * The recorded location; without one, where the parameter would be, since a process may end between account and status. A parameter that
 * was moved away from settings under deletion is no longer there.
 */
function removalTarget({ stored, account, moved }: CredentialFacts): ParameterLocation | undefined {
  if (stored) return recordedLocation(stored, account)
  return account.state === 'missing' && moved ? undefined : account.location
}

/** With the current role of the account if it is the same account: the recorded one may have been recreated under another name. */
function recordedLocation(stored: StoredParameter, { state, location }: AccountFacts): ParameterLocation {
  const isSame = location?.account === stored.account && location.region === stored.region
  return isSame && (state === 'ready' || state === 'missing')
    ? { ...stored, roleArn: location.roleArn }
    : stored
}

/** Moves away from an account that is no longer the organization's. */
function planAccountChange(facts: CredentialFacts): CredentialAction | undefined {
  const { stored, account, pass } = facts
  if (!stored || !hasLeft(facts)) return undefined
  const reason = account.state === 'missing' ? 'the settings no longer exist' : 'the account is different'
  if (pass.removed || pass.failedDeletionRecorded) return { step: 'forget', reason }
  const at = recordedLocation(stored, account)
  // Tried once; the reconciler of failed deletions tries again.
  if (pass.failure || pass.owner === 'not-ours')
    return {
      step: 'record-failed-deletion',
      at,
      reason: failedDeletionReason(pass.failure),
    }
  if (pass.owner === 'unknown') return { step: 'look', at, reason }
  if (pass.owner === 'absent') return waitUntilVisible(facts) ?? { step: 'forget', reason }
  return { step: 'remove', at, reason }
}

function hasLeft({ stored, account }: CredentialFacts): boolean {
  if (account.state === 'missing') return true
  if (account.state !== 'ready') return false
  return account.location.account !== stored?.account || account.location.region !== stored.region
}

function planStored(facts: CredentialFacts): CredentialAction {
  const { inputSecret, stored } = facts
  switch (inputSecret.state) {
    case 'none':
    // A Secret is deleted once its value is stored.
    case 'missing':
      return stored ? planKept(facts) : planWithout(facts)
    case 'forbidden':
      return stored ? planKept(facts) : refuse('SecretForbidden', aboutSecret(facts, FORBIDDEN))
    case 'wrong-type':
      return refuse(
        'InvalidSecretType',
        aboutSecret(facts, `has the type ${inputSecret.type || 'Opaque'}. ${TYPE_ALLOWED}`),
      )
    case 'no-key':
      return refuse('SecretKeyMissing', aboutSecret(facts, 'does not have the key `secret`.'))
    case 'problem':
      return refuse(
        'InvalidSecret',
        aboutSecret(facts, `cannot be stored: its value ${inputSecret.problem}.`),
      )
    case 'usable':
      return (isForAll(inputSecret) ? undefined : refuseShared(facts)) ?? planInputSecret(facts, inputSecret)
  }
}

/** The older credential gets the Secret, which is then deleted. */
function refuseShared(facts: CredentialFacts): CredentialAction | undefined {
  const { inputSecret, sharedWith, storedInputSecret } = facts
  if (sharedWith === undefined) return undefined
  if (inputSecret.state === 'usable' && isStoredInputSecret(inputSecret, storedInputSecret)) return undefined
  const rest = `is also referenced by the older credential ${sharedWith}. Davit will delete the Secret after it stores the value for ${sharedWith}. Use a separate Secret for this credential, or set the annotation davit.dev/retain: "true" on the Secret to keep it for both.`
  return refuse('SecretShared', aboutSecret(facts, rest))
}

const FORBIDDEN =
  'cannot be read because Davit does not have access to Secrets in this namespace. Ask your cluster operator to bind the ClusterRole davit-organization-secrets to the Davit controller in this namespace.'

const TYPE_ALLOWED =
  'Davit uses only Secrets of type davit.dev/registry-secret, because this type marks them as intended for Davit. The type of a Secret is immutable, so delete the Secret and create it again with this type.'

function aboutSecret({ secretName }: CredentialFacts, rest: string): string {
  return `The Secret ${secretName ?? ''} ${rest}`
}

/** There is no new value: the stored one is kept, or reported as lost. */
function planKept(facts: CredentialFacts): CredentialAction {
  const { listing, stored } = facts
  const drift = listing.state === 'recorded' ? listing.drift : undefined
  if (drift?.kind === 'missing')
    return refuse('ParameterMissing', askAgain('no longer exists in the account'))
  if (drift?.kind === 'replaced')
    return refuse(
      'ParameterReplaced',
      askAgain(`was recreated by ${drift.by}, and the version that Davit wrote is gone`),
    )
  // Until its fields are written, or the secret is provided again, the previous version counts.
  if (drift?.kind === 'adopt' && stored && !facts.hasPendingFields)
    return {
      step: 'adopt',
      at: stored,
      version: drift.version,
      reason: 'Davit wrote it but did not record it',
    }
  return { step: 'nothing', reason: 'stored' }
}

function askAgain(what: string): string {
  return `The parameter ${what}. Davit keeps no copy of the secret. Provide the secret again through the REST API or with spec.secretRef.`
}

export const ACCOUNT_CHANGED = refuse(
  'AccountChanged',
  'The secret was stored in an account or region that the SecretsSettings object no longer uses. Davit keeps no copy of the secret. Make sure that the account in the SecretsSettings object is connected, then provide the secret again.',
)

/** Nothing is stored, and there is no value to store. */
function planWithout(facts: CredentialFacts): CredentialAction {
  if (facts.moved) return ACCOUNT_CHANGED
  const notReady = waitForAccount(facts)
  if (notReady) return notReady
  if (facts.inputSecret.state === 'missing') {
    const rest =
      "does not exist. Create it in the credential's namespace, with the type davit.dev/registry-secret."
    return refuseShared(facts) ?? { step: 'wait', reason: 'SecretMissing', message: aboutSecret(facts, rest) }
  }
  const mayBeThere = facts.generatedName && !facts.hasPendingFields
  return (mayBeThere ? planAdoption(facts) : undefined) ?? refuse('SecretRequired', SECRET_REQUIRED)
}

const SECRET_REQUIRED =
  'No secret is stored. Reference a Secret of type davit.dev/registry-secret in spec.secretRef, or provide the secret through the REST API.'

function planInputSecret(facts: CredentialFacts, found: UsableInputSecret): CredentialAction {
  const { stored, storedInputSecret, listing, account, now } = facts
  const inputSecret = inputSecretToStore(found, storedInputSecret, now)
  const isStored = stored && isStoredInputSecret(found, storedInputSecret)
  const drift = listing.state === 'recorded' ? listing.drift : undefined
  const isLost = drift?.kind === 'missing' || drift?.kind === 'replaced'
  const afterwards = isStored && !isLost ? planStoredInputSecret(found, storedInputSecret, now) : undefined
  // An account may fail for ever; a stored value needs no copy in the cluster for that long.
  if (account.state === 'stalled' && afterwards && !isKept(found, storedInputSecret)) return afterwards
  const notReady = waitForAccount(facts)
  if (notReady) return notReady
  if (account.state !== 'ready') return { step: 'nothing', reason: 'no account' }
  if (!stored || drift?.kind === 'missing') return planPut(facts, account.location, inputSecret, 'put-new')
  const version = planPut(facts, account.location, inputSecret, 'put-version')
  if (drift?.kind === 'replaced') return refuseReplaced(facts, drift.by, version)
  if (!isStored || restoresParameter(facts, found, account.location)) return version
  return afterwards ?? planKept(facts)
}

/** Another writer changed the parameter, or the settings have another key: a Secret that is created again restores it, with any value. */
function restoresParameter(
  { stored, storedInputSecret, listing }: CredentialFacts,
  found: UsableInputSecret,
  at: ParameterLocation,
): boolean {
  if (storedInputSecret?.uid === found.uid) return false
  const drift = listing.state === 'recorded' ? listing.drift.kind : 'none'
  return drift === 'changed' || drift === 'key' || stored?.kmsKeyId !== at.kmsKeyId
}

/** With the value at hand a recreated parameter is overwritten, unless it is no longer Davit's. */
function refuseReplaced(facts: CredentialFacts, by: string, step: CredentialAction): CredentialAction {
  if (step.step !== 'refuse' || step.reason !== 'ParameterNotOwned') return step
  const message = `The parameter was recreated by ${by} without Davit's tags, so Davit will not overwrite it. Delete the parameter in the account. Davit will then store the value of the Secret ${facts.secretName ?? ''} again.`
  return refuse('ParameterReplaced', message)
}

/** The owner of a taken name is checked before the parameter is overwritten or removed. */
function planPut(
  { pass }: CredentialFacts,
  at: ParameterLocation,
  inputSecret: InputSecretRef,
  next: 'put-new' | 'put-version',
): CredentialAction {
  const isTaken = pass.failure?.code === 'ParameterAlreadyExists'
  if (pass.owner === 'not-ours')
    return refuse(
      'ParameterNotOwned',
      `The parameter ${at.name} already exists in account ${at.account}, region ${at.region}, and Davit did not create it for this organization. Delete the parameter, or create the credential under another name.`,
    )
  if (pass.failure && !isTaken) return actionAfterFailure(pass.failure)
  // The name was free a moment ago: the store lags, or another writer is at work.
  if (isTaken && (pass.removed || pass.owner === 'absent')) return waitForCloud(pass.failure)
  if (pass.owner === 'absent' || pass.removed)
    return { step: 'put-new', at, inputSecret, reason: 'the name is free' }
  if (pass.owner === 'ours')
    return next === 'put-version'
      ? { step: 'put-version', at, inputSecret, reason: 'the Secret has a different value' }
      : { step: 'remove', at, reason: 'a predecessor, whose versions must be removed' }
  if (next === 'put-new' && !isTaken) return { step: 'put-new', at, inputSecret, reason: 'nothing is stored' }
  return { step: 'look', at, reason: 'whether it is ours' }
}

function waitForAccount({ account }: CredentialFacts): CredentialAction | undefined {
  if (account.state === 'ready') return undefined
  if (account.state === 'missing')
    return {
      step: 'wait',
      reason: 'SettingsRequired',
      message:
        'The namespace has no SecretsSettings object named `default`. Create one to connect the AWS account in which the secret will be stored.',
    }
  if (account.state === 'connecting')
    return { step: 'wait', reason: 'ConnectingAccount', message: account.message }
  return refuse('AccountNotReady', account.message)
}
