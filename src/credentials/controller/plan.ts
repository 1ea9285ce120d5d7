import type { CredentialStall, StoredParameter } from '../../apis/registry-credential.ts'
import { type CloudFailure, failureText } from '../cloud.ts'
import {
  type AccountFacts,
  type CredentialAction,
  type CredentialFacts,
  type FoundParameter,
  type InputSecretRef,
  isStoredInputSecret,
  NOT_OURS,
  type ParameterLocation,
  type UsableInputSecret,
  waitUntilVisible,
} from './facts.ts'

/** Answers that end a pass over a credential. */

function actionAfterFailure(failure: CloudFailure): CredentialAction {
  const words = failureText(failure)
  // Gone since it was looked at: the next pass finds the name free.
  if (failure.remedy === 'retry' || failure.remedy === 'gone') return waitForCloud(failure)
  if (failure.remedy === 'permissions')
    return refuse(
      'AccessDenied',
      `${words}. Compare the policy of the role with status.writerPolicy of the SecretsSettings.`,
    )
  return refuse('CloudRefused', `${words}. Davit tries again when credential or settings change.`)
}

function waitForCloud(failure: CloudFailure | undefined): CredentialAction {
  const words = failure ? `${failureText(failure)}. ` : ''
  return { step: 'wait', reason: 'CloudUnavailable', message: `${words}Davit tries again.` }
}

function refuse(reason: CredentialStall, message: string): Extract<CredentialAction, { step: 'refuse' }> {
  return { step: 'refuse', reason, message }
}

/**
 * A credential that was made by REST, which stores first, and has no parameter in its status: that is on its way, or the process that
 * was to write it has ended. What a listing shows under the name is taken up only if all of it is as Davit makes it.
 */

/** How long a credential may be without a parameter while the request that made it writes its status. */
const BIRTH_MS = 30_000

/** Undefined: there is nothing. */
function planAdoption(facts: CredentialFacts): CredentialAction | undefined {
  const { account, listing, createdAt, now, pass } = facts
  const found = listing.state === 'unrecorded' ? listing.found : undefined
  if (account.state === 'ready' && found && pass.owner !== 'absent')
    return planFound(facts, account.place, found)
  const until = createdAt + BIRTH_MS
  if (now < until) return { step: 'wait', reason: 'Storing', message: 'The secret is being stored.', until }
  if (pass.failure) return actionAfterFailure(pass.failure)
  return listing.state === 'unknown'
    ? { step: 'list', reason: 'it may be there and not recorded' }
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
  return { step: 'adopt', at, version, reason: 'it is there and not recorded' }
}

function notOurs({ name, account, region }: ParameterLocation, found: FoundParameter): CredentialAction {
  const { version, type, by } = found
  const what = `${name} in account ${account}, region ${region} (${type || 'no type'}, version ${version}, last written by ${by || 'nobody'})`
  return refuse(
    'ParameterNotOurs',
    `No secret is recorded, and the parameter ${what} is not as Davit makes it for this organization. Remove it, and give the secret again.`,
  )
}

/**
 * The next step for a credential that is being deleted (interface §4.1: best effort). It ends whatever the cloud says: removed,
 * not there, or recorded as an orphan; only then the finalizer goes.
 */

/** So long after its deletion an object may wait for the cloud, which holds up its namespace. */
const LIMIT_MS = 60_000
/** Between two tries. */
const TRY_AGAIN_MS = 5000

function planRemoval(facts: CredentialFacts, deletedAt: number): CredentialAction {
  const { pass, stored } = facts
  if (!facts.hasFinalizer) return { step: 'nothing', reason: 'nothing holds it' }
  if (pass.removed) return { step: 'drop-finalizer', reason: 'the parameter is removed' }
  if (pass.failedDeletionRecorded)
    return { step: 'drop-finalizer', reason: 'the parameter is recorded as an orphan' }
  const at = target(facts)
  if (at === undefined)
    return { step: 'drop-finalizer', reason: 'nothing was stored, and there is no account' }
  if (pass.failure) return planFailed(facts, at, deletedAt)
  switch (pass.owner) {
    case 'unknown':
      return { step: 'look', at, reason: 'whether it is ours' }
    case 'ours':
      return { step: 'remove', at, reason: 'the credential is deleted' }
    case 'absent':
      return (
        (facts.now < deletedAt + LIMIT_MS ? waitUntilVisible(facts) : undefined) ?? {
          step: 'drop-finalizer',
          reason: 'there is no parameter',
        }
      )
    case 'not-ours':
      // Never recorded: it was there before. Recorded: somebody changed its tags, or made it anew.
      return stored
        ? { step: 'record-orphan', at, reason: NOT_OURS }
        : { step: 'drop-finalizer', reason: 'what is under the name is not ours' }
  }
}

function planFailed(facts: CredentialFacts, at: ParameterLocation, deletedAt: number): CredentialAction {
  const { pass, now } = facts
  const limit = deletedAt + LIMIT_MS
  const words = pass.failure ? failureText(pass.failure) : NOT_OURS
  if (pass.failure?.remedy !== 'retry' || now >= limit) return { step: 'record-orphan', at, reason: words }
  const message = `The parameter is being removed. ${words}`
  return { step: 'wait', reason: 'CloudUnavailable', message, until: Math.min(now + TRY_AGAIN_MS, limit) }
}

/**
 * What was recorded; else where it would be, since a process may end between put and status. What was taken along from settings that
 * are being deleted is there no more.
 */
function target({ stored, account, moved }: CredentialFacts): ParameterLocation | undefined {
  if (stored) return recordedLocation(stored, account)
  return account.state === 'missing' && moved ? undefined : account.place
}

/** The role may have been made again since: the one that holds now is more likely to be there. */
function recordedLocation(stored: StoredParameter, { state, place }: AccountFacts): ParameterLocation {
  const same = place?.account === stored.account && place.region === stored.region
  return same && (state === 'ready' || state === 'missing') ? { ...stored, roleArn: place.roleArn } : stored
}

/**
 * The next step for a credential. The controller gathers the facts, asks, takes the step, and asks again with what came of it,
 * until the answer is `nothing`, `refuse` or `wait`. A step may be repeated: after a crash the facts lead to the same one.
 *
 *   nothing stored --put-new--> stored                      (name free; the hand-over Secret, or the REST request, has the value)
 *   nothing stored --put-new, name taken by us--look, remove, put-new--> stored   (no history of a predecessor stays)
 *   nothing stored --name taken by somebody else--> refused (ParameterNotOurs)
 *   nothing stored --the listing has ours--look, adopt--> stored   (a crash between put and status)
 *   stored --the value of the hand-over Secret changed--look, put-version--> stored, next version
 *   stored --anything else of it changed, retained--note-handover--> stored
 *   stored --its value is stored, not retained--delete-handover--> stored
 *   stored --another account or region, or no settings--look, remove | record-orphan, forget--> nothing stored
 *   stored, or not known --deleted--look, remove | record-orphan, drop-finalizer--> gone, at most 60 s later
 *
 * `look` reads the tags: nothing is removed or written over whose owner was not looked at in this pass.
 */

export function nextAction(facts: CredentialFacts): CredentialAction {
  if (facts.deletedAt !== undefined) return planRemoval(facts, facts.deletedAt)
  if (facts.problem) return { step: 'refuse', ...facts.problem }
  if (facts.type === 'ecr') return { step: 'nothing', reason: 'ecr stores nothing' }
  if (!facts.hasFinalizer) return { step: 'add-finalizer', reason: 'before anything is stored' }
  return planAccountChange(facts) ?? planStored(facts)
}

/** Away from an account that is not the organization's any more. */
function planAccountChange(facts: CredentialFacts): CredentialAction | undefined {
  const { stored, account, pass } = facts
  if (!stored || !hasLeft(facts)) return undefined
  const reason = account.state === 'missing' ? 'there are no settings any more' : 'the account is another one'
  if (pass.removed || pass.failedDeletionRecorded) return { step: 'forget', reason }
  const at = recordedLocation(stored, account)
  // Tried once: what stays is an orphan, which the sweep tries again.
  if (pass.failure || pass.owner === 'not-ours')
    return { step: 'record-orphan', at, reason: pass.failure ? failureText(pass.failure) : 'not ours' }
  if (pass.owner === 'unknown') return { step: 'look', at, reason }
  if (pass.owner === 'absent') return waitUntilVisible(facts) ?? { step: 'forget', reason }
  return { step: 'remove', at, reason }
}

function hasLeft({ stored, account }: CredentialFacts): boolean {
  if (account.state === 'missing') return true
  if (account.state !== 'ready') return false
  return account.place.account !== stored?.account || account.place.region !== stored.region
}

function planStored(facts: CredentialFacts): CredentialAction {
  const { inputSecret, stored } = facts
  switch (inputSecret.state) {
    case 'none':
      return stored ? planKept(facts) : planWithout(facts)
    case 'missing':
      // Gone after it was stored, which is what happens to it.
      return stored ? planKept(facts) : planWithout(facts)
    case 'forbidden':
      return stored ? planKept(facts) : refuse('SecretForbidden', secretWords(facts, FORBIDDEN))
    case 'wrong-type':
      return refuse(
        'SecretTypeRefused',
        secretWords(facts, `has the type ${inputSecret.type || 'Opaque'}; ${TYPE_ALLOWED}`),
      )
    case 'no-key':
      return refuse('SecretKeyMissing', secretWords(facts, 'has no key `secret`.'))
    case 'problem':
      return refuse(
        'SecretRefused',
        secretWords(facts, `cannot be stored: its value ${inputSecret.problem}.`),
      )
    case 'usable':
      return (inputSecret.retained ? undefined : refuseShared(facts)) ?? planInputSecret(facts, inputSecret)
  }
}

/** The older one takes it, and it is deleted then. */
function refuseShared(facts: CredentialFacts): CredentialAction | undefined {
  const { inputSecret, sharedWith, storedInputSecret } = facts
  if (sharedWith === undefined) return undefined
  if (inputSecret.state === 'usable' && isStoredInputSecret(inputSecret, storedInputSecret)) return undefined
  const rest = `is named by the credential ${sharedWith}, too, which is older: the Secret is deleted once its value is stored there. Name one of its own, or keep the Secret for both with the annotation davit.dev/retain: "true".`
  return refuse('SecretShared', secretWords(facts, rest))
}

const FORBIDDEN =
  'may not be read: Davit has the right to Secrets where it was given it. Whoever runs Davit binds the ClusterRole davit-organization-secrets to its controller in this namespace.'

const TYPE_ALLOWED =
  'only one of the type davit.dev/registry-secret is used, since that says that it is meant for Davit. The type of a Secret cannot be changed: make it again.'

function secretWords({ secretName }: CredentialFacts, rest: string): string {
  return `The Secret ${secretName ?? ''} ${rest}`
}

/** Nothing brings a value: what is stored stays, or is missed. */
function planKept(facts: CredentialFacts): CredentialAction {
  const { listing, stored } = facts
  const drift = listing.state === 'recorded' ? listing.drift : undefined
  if (drift?.kind === 'missing') return refuse('ParameterMissing', askAgain('is not in the account any more'))
  if (drift?.kind === 'replaced')
    return refuse(
      'ParameterReplaced',
      askAgain(`was made anew by ${drift.by}, and the version of Davit is gone`),
    )
  // Until its fields are written, or the secret is given again, the version before holds.
  if (drift?.kind === 'adopt' && stored && !facts.hasPendingFields)
    return {
      step: 'adopt',
      at: stored,
      version: drift.version,
      reason: 'Davit wrote it and had not recorded it',
    }
  return { step: 'nothing', reason: 'stored' }
}

function askAgain(what: string): string {
  return `The parameter ${what}. Davit has no copy of the secret: give it again, by REST or with spec.secretRef.`
}

export const ACCOUNT_CHANGED = refuse(
  'AccountChanged',
  'The secret was in an account or region that is not that of the SecretsSettings any more. Davit has no copy of it: connect the account, and give the secret again.',
)

/** Nothing is stored, and nothing brings a value. */
function planWithout(facts: CredentialFacts): CredentialAction {
  if (facts.moved) return ACCOUNT_CHANGED
  const notReady = waitForAccount(facts)
  if (notReady) return notReady
  if (facts.inputSecret.state === 'missing') {
    const rest =
      'is not there. Make it in the namespace of the credential, of the type davit.dev/registry-secret.'
    return refuseShared(facts) ?? { step: 'wait', reason: 'SecretMissing', message: secretWords(facts, rest) }
  }
  const mayBeThere = facts.generatedName && !facts.hasPendingFields
  return (mayBeThere ? planAdoption(facts) : undefined) ?? refuse('SecretRequired', SECRET_REQUIRED)
}

const SECRET_REQUIRED =
  'No secret is stored. Name a Secret of the type davit.dev/registry-secret in spec.secretRef, or give the secret by REST.'

function planInputSecret(facts: CredentialFacts, found: UsableInputSecret): CredentialAction {
  const { stored, storedInputSecret, listing, account } = facts
  const { uid, resourceVersion, retained, mark } = found
  const handover = { uid, resourceVersion, ...(retained ? { mark } : {}) }
  const isStored = stored && isStoredInputSecret(found, storedInputSecret)
  const drift = listing.state === 'recorded' ? listing.drift : undefined
  const isLost = drift?.kind === 'missing' || drift?.kind === 'replaced'
  // An account that fails may do so for ever: what is stored needs no copy in the cluster meanwhile.
  if (account.state === 'stalled' && isStored && !isLost && !retained)
    return { step: 'delete-handover', handover, reason: 'its value is stored' }
  const notReady = waitForAccount(facts)
  if (notReady) return notReady
  if (account.state !== 'ready') return { step: 'nothing', reason: 'no account' }
  if (!stored || drift?.kind === 'missing')
    return planPut(facts, account.place, { handover, next: 'put-new' })
  const version = planPut(facts, account.place, { handover, next: 'put-version' })
  if (drift?.kind === 'replaced') return sayWhoReplaced(facts, drift.by, version)
  if (!isStored) return version
  if (!retained) return { step: 'delete-handover', handover, reason: 'its value is stored' }
  if (storedInputSecret?.resourceVersion !== resourceVersion || storedInputSecret.mark !== mark)
    return { step: 'note-handover', handover, reason: 'something else of it changed' }
  return planKept(facts)
}

/** The value is at hand: what was made anew in its place is written over, unless it is not Davit's any more. */
function sayWhoReplaced(facts: CredentialFacts, by: string, step: CredentialAction): CredentialAction {
  if (step.step !== 'refuse' || step.reason !== 'ParameterNotOurs') return step
  const message = `The parameter was made anew by ${by}, without the tags of Davit, which does not write over it. Remove it in the account: ${secretWords(facts, 'is stored again by itself then.')}`
  return refuse('ParameterReplaced', message)
}

/** A name that is taken is looked at before anything is written over it, or removed. */
function planPut(
  { pass }: CredentialFacts,
  at: ParameterLocation,
  { handover, next }: { handover: InputSecretRef; next: 'put-new' | 'put-version' },
): CredentialAction {
  const isTaken = pass.failure?.code === 'ParameterAlreadyExists'
  if (pass.owner === 'not-ours')
    return refuse(
      'ParameterNotOurs',
      `There is a parameter ${at.name} in account ${at.account}, region ${at.region}, that Davit did not make for this organization. Remove it, or give the credential another name.`,
    )
  if (pass.failure && !isTaken) return actionAfterFailure(pass.failure)
  // It was free a moment ago: the store is behind, or somebody else is at it.
  if (isTaken && (pass.removed || pass.owner === 'absent')) return waitForCloud(pass.failure)
  if (pass.owner === 'absent' || pass.removed)
    return { step: 'put-new', at, handover, reason: 'the name is free' }
  if (pass.owner === 'ours')
    return next === 'put-version'
      ? { step: 'put-version', at, handover, reason: 'the Secret has another value' }
      : { step: 'remove', at, reason: 'a predecessor, whose versions are not to stay' }
  if (next === 'put-new' && !isTaken) return { step: 'put-new', at, handover, reason: 'nothing is stored' }
  return { step: 'look', at, reason: 'whether it is ours' }
}

function waitForAccount({ account }: CredentialFacts): CredentialAction | undefined {
  if (account.state === 'ready') return undefined
  if (account.state === 'missing')
    return {
      step: 'wait',
      reason: 'SettingsRequired',
      message:
        'There is no SecretsSettings `default` in the namespace: connect the cloud account that is to hold the secret.',
    }
  if (account.state === 'connecting')
    return { step: 'wait', reason: 'AccountConnecting', message: account.message }
  return refuse('AccountNotReady', account.message)
}
