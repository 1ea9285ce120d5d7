/**
 * The next step for a credential that is being deleted (interface §4.1: best effort). It ends whatever the cloud says: removed,
 * not there, or recorded as an orphan; only then the finalizer goes.
 */
import type { StoredParameter } from '../../apis/registry-credential.ts'
import { failureText } from '../cloud-failure.ts'
import type { CredentialAction } from './credential-step.ts'
import { NOT_OURS } from './deletion-outcome.ts'
import type { AccountFacts, CredentialFacts, ParameterLocation } from './facts.ts'
import { waitUntilVisible } from './parameter-lag.ts'

/** So long after its deletion an object may wait for the cloud, which holds up its namespace. */
const LIMIT_MS = 60_000
/** Between two tries. */
const TRY_AGAIN_MS = 5000

export function planRemoval(facts: CredentialFacts, deletedAt: number): CredentialAction {
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
export function recordedLocation(stored: StoredParameter, { state, place }: AccountFacts): ParameterLocation {
  const same = place?.account === stored.account && place.region === stored.region
  return same && (state === 'ready' || state === 'missing') ? { ...stored, roleArn: place.roleArn } : stored
}
