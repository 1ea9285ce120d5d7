/**
 * A credential that was made by REST, which stores first, and has no parameter in its status: that is on its way, or the process that
 * was to write it has ended. What a listing shows under the name is taken up only if all of it is as Davit makes it.
 */
import { actionAfterFailure, refuse } from './credential-answers.ts'
import type { CredentialAction } from './credential-step.ts'
import type { CredentialFacts, FoundParameter, ParameterLocation } from './facts.ts'

/** How long a credential may be without a parameter while the request that made it writes its status. */
const BIRTH_MS = 30_000

/** Undefined: there is nothing. */
export function planAdoption(facts: CredentialFacts): CredentialAction | undefined {
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
