/**
 * The next step for a credential. The controller gathers the facts, asks, takes the step, and asks again with what came of it,
 * until the answer is `nothing`, `refuse` or `wait`. A step may be repeated: after a crash the facts lead to the same one.
 *
 *   nothing stored --put-new--> stored                      (name free; the hand-over Secret, or the REST request, has the value)
 *   nothing stored --put-new, name taken by us--look, remove, put-new--> stored   (no history of a predecessor stays)
 *   nothing stored --name taken by somebody else--> refused (ParameterNotOurs)
 *   nothing stored --the listing has ours--adopt--> stored  (a crash between put and status)
 *   stored --the hand-over Secret changed--look, put-version--> stored, next version
 *   stored --its value is stored, not retained--delete-handover--> stored
 *   stored --another account or region, or no settings--look, remove | record-orphan, forget--> nothing stored
 *   stored, or not known --deleted--look, remove | record-orphan, drop-finalizer--> gone, at most 60 s later
 *
 * `look` reads the tags: nothing is removed or written over whose owner was not looked at in this pass.
 */
import type { CredentialStall } from '../api/registry-credential.ts'
import { type CloudFailure, failureText } from './cloud-failure.ts'
import type { CredentialFacts, ParameterPlace } from './credential-facts.ts'
import { planRemoval, recordedAt } from './credential-removal.ts'
import type { CredentialStep, Handover } from './credential-step.ts'

/** How long a credential may be without a parameter while the request that made it writes its status. */
const BIRTH_MS = 30_000

export function planCredential(facts: CredentialFacts): CredentialStep {
  if (facts.deletedAt !== undefined) return planRemoval(facts, facts.deletedAt)
  if (facts.problem) return { step: 'refuse', ...facts.problem }
  if (facts.type === 'ecr') return { step: 'nothing', reason: 'ecr stores nothing' }
  if (!facts.hasFinalizer) return { step: 'add-finalizer', reason: 'before anything is stored' }
  return planMove(facts) ?? planStored(facts)
}

/** Away from an account that is not the organization's any more. */
function planMove(facts: CredentialFacts): CredentialStep | undefined {
  const { stored, account, pass } = facts
  if (!stored || !hasLeft(facts)) return undefined
  const reason = account.state === 'missing' ? 'there are no settings any more' : 'the account is another one'
  if (pass.removed || pass.orphanRecorded) return { step: 'forget', reason }
  const at = recordedAt(stored, account)
  // Tried once: what stays is an orphan, which the sweep tries again.
  if (pass.failure || pass.owner === 'not-ours')
    return { step: 'record-orphan', at, reason: pass.failure ? failureText(pass.failure) : 'not ours' }
  if (pass.owner === 'unknown') return { step: 'look', at, reason }
  return pass.owner === 'absent' ? { step: 'forget', reason } : { step: 'remove', at, reason }
}

function hasLeft({ stored, account }: CredentialFacts): boolean {
  if (account.state === 'missing') return true
  if (account.state !== 'ready') return false
  return account.place.account !== stored?.account || account.place.region !== stored.region
}

function planStored(facts: CredentialFacts): CredentialStep {
  const { handover, stored } = facts
  switch (handover.state) {
    case 'none':
      return stored ? planKept(facts) : planWithout(facts)
    case 'missing':
      // Gone after it was stored, which is what happens to it.
      return stored ? planKept(facts) : planWithout(facts)
    case 'wrong-type':
      return refuse(
        'SecretTypeRefused',
        secretWords(facts, `has the type ${handover.type || 'Opaque'}; ${TYPE_ALLOWED}`),
      )
    case 'no-key':
      return refuse('SecretKeyMissing', secretWords(facts, 'has no key `secret`.'))
    case 'problem':
      return refuse('SecretRefused', secretWords(facts, `cannot be stored: its value ${handover.problem}.`))
    case 'usable':
      return planHandover(facts, handover)
  }
}

const TYPE_ALLOWED =
  'only one of the type davit.dev/registry-secret is read, since that says that it is meant for Davit. The type of a Secret cannot be changed: make it again.'

function secretWords({ secretName }: CredentialFacts, rest: string): string {
  return `The Secret ${secretName ?? ''} ${rest}`
}

/** Nothing brings a value: what is stored stays, or is missed. */
function planKept(facts: CredentialFacts): CredentialStep {
  const { listing, stored } = facts
  const drift = listing.state === 'recorded' ? listing.drift : undefined
  if (drift?.kind === 'missing') return refuse('ParameterMissing', askAgain('is not in the account any more'))
  if (drift?.kind === 'replaced')
    return refuse(
      'ParameterReplaced',
      askAgain(`was made anew by ${drift.by}, and the version of Davit is gone`),
    )
  if (drift?.kind === 'adopt' && stored)
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
function planWithout(facts: CredentialFacts): CredentialStep {
  if (facts.moved) return ACCOUNT_CHANGED
  const notReady = waitForAccount(facts)
  if (notReady) return notReady
  if (facts.handover.state === 'missing') {
    const rest =
      'is not there. Make it in the namespace of the credential, of the type davit.dev/registry-secret.'
    return { step: 'wait', reason: 'SecretMissing', message: secretWords(facts, rest) }
  }
  return (facts.ownName ? planUnrecorded(facts) : undefined) ?? refuse('SecretRequired', SECRET_REQUIRED)
}

const SECRET_REQUIRED =
  'No secret is stored. Name a Secret of the type davit.dev/registry-secret in spec.secretRef, or give the secret by REST.'

/** Made by REST, which stores first: its status is on its way, or the process that was to write it has ended. */
function planUnrecorded({
  account,
  listing,
  createdAt,
  now,
  pass,
}: CredentialFacts): CredentialStep | undefined {
  if (account.state === 'ready' && listing.state === 'unrecorded' && listing.version !== undefined)
    return {
      step: 'adopt',
      at: account.place,
      version: listing.version,
      reason: 'it is there and not recorded',
    }
  const until = createdAt + BIRTH_MS
  if (now < until) return { step: 'wait', reason: 'Storing', message: 'The secret is being stored.', until }
  if (pass.failure) return planFailed(pass.failure)
  return listing.state === 'unknown'
    ? { step: 'list', reason: 'it may be there and not recorded' }
    : undefined
}

type Usable = Extract<CredentialFacts['handover'], { state: 'usable' }>

function planHandover(facts: CredentialFacts, { uid, resourceVersion, retained }: Usable): CredentialStep {
  const { stored, storedHandover, listing, account } = facts
  const handover = { uid, resourceVersion }
  const isStored = stored && storedHandover?.uid === uid && storedHandover.resourceVersion === resourceVersion
  const drift = listing.state === 'recorded' ? listing.drift.kind : 'none'
  const isKept = isStored && drift !== 'missing' && drift !== 'replaced'
  // An account that fails may do so for ever: what is stored needs no copy in the cluster meanwhile.
  if (account.state === 'stalled' && isKept && !retained)
    return { step: 'delete-handover', handover, reason: 'its value is stored' }
  const notReady = waitForAccount(facts)
  if (notReady) return notReady
  if (account.state !== 'ready') return { step: 'nothing', reason: 'no account' }
  if (!stored) return planPut(facts, account.place, { handover, next: 'put-new' })
  if (drift === 'missing') return planPut(facts, account.place, { handover, next: 'put-new' })
  if (!isStored) return planPut(facts, account.place, { handover, next: 'put-version' })
  if (drift === 'replaced') return planKept(facts)
  if (!retained) return { step: 'delete-handover', handover, reason: 'its value is stored' }
  return planKept(facts)
}

/** A name that is taken is looked at before anything is written over it, or removed. */
function planPut(
  { pass }: CredentialFacts,
  at: ParameterPlace,
  { handover, next }: { handover: Handover; next: 'put-new' | 'put-version' },
): CredentialStep {
  const isTaken = pass.failure?.code === 'ParameterAlreadyExists'
  if (pass.owner === 'not-ours')
    return refuse(
      'ParameterNotOurs',
      `There is a parameter ${at.name} in account ${at.account}, region ${at.region}, that Davit did not make for this organization. Remove it, or give the credential another name.`,
    )
  if (pass.failure && !isTaken) return planFailed(pass.failure)
  // It was free a moment ago: the store is behind, or somebody else is at it.
  if (isTaken && (pass.removed || pass.owner === 'absent')) return later(pass.failure)
  if (pass.owner === 'absent' || pass.removed)
    return { step: 'put-new', at, handover, reason: 'the name is free' }
  if (pass.owner === 'ours')
    return next === 'put-version'
      ? { step: 'put-version', at, handover, reason: 'the Secret has another value' }
      : { step: 'remove', at, reason: 'a predecessor, whose versions are not to stay' }
  if (next === 'put-new' && !isTaken) return { step: 'put-new', at, handover, reason: 'nothing is stored' }
  return { step: 'look', at, reason: 'whether it is ours' }
}

function planFailed(failure: CloudFailure): CredentialStep {
  const words = failureText(failure)
  // Gone since it was looked at: the next pass finds the name free.
  if (failure.remedy === 'retry' || failure.remedy === 'gone') return later(failure)
  if (failure.remedy === 'permissions')
    return refuse(
      'AccessDenied',
      `${words}. Compare the policy of the role with status.writerPolicy of the SecretsSettings.`,
    )
  return refuse('CloudRefused', `${words}. Davit tries again when credential or settings change.`)
}

function later(failure: CloudFailure | undefined): CredentialStep {
  const words = failure ? `${failureText(failure)}. ` : ''
  return { step: 'wait', reason: 'CloudUnavailable', message: `${words}Davit tries again.` }
}

function waitForAccount({ account }: CredentialFacts): CredentialStep | undefined {
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

function refuse(reason: CredentialStall, message: string): Extract<CredentialStep, { step: 'refuse' }> {
  return { step: 'refuse', reason, message }
}
