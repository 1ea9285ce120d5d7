import type { Principal } from '../account.ts'
import { AwsError } from '../aws-error.ts'
import { type AccessRequest, applies, type Effect, effectOf, evaluate } from './evaluate.ts'
import type { Policy } from './policy.ts'

/** How a resource policy names a principal: the more precisely, the less its identity policies matter. */
type KnownAs = 'account' | 'anyone' | 'role' | 'session' | 'user'

/** The decision of a resource policy about a principal. */
export type ResourceVerdict = { effect: Effect; allowedAs: ReadonlySet<KnownAs> }

/** @throws AwsError unless the identity policies and the session policy of the principal allow it */
export function authorize(principal: Principal, request: AccessRequest): void {
  const refusal = ownRefusal(principal, request, true)
  if (refusal !== undefined) throw denied(principal, request, refusal)
}

/**
 * @param needsIdentity whether the identity policies must allow it, or only must not deny it
 * @returns the reason of a rejection, in the wording of AWS
 */
export function ownRefusal(
  { policies, session }: Principal,
  request: AccessRequest,
  needsIdentity: boolean,
): string | undefined {
  const own = evaluate(policies, request)
  const narrowed = session?.policy ? evaluate([session.policy], request) : 'allow'
  if (own === 'deny') return 'with an explicit deny in an identity-based policy'
  if (narrowed === 'deny') return 'with an explicit deny in a session policy'
  if (needsIdentity && own === 'none')
    return `because no identity-based policy allows the ${request.action} action`
  if (narrowed === 'none') return `because no session policy allows the ${request.action} action`
  return undefined
}

export function resourceVerdict(
  policy: Policy,
  principal: Principal,
  request: AccessRequest,
): ResourceVerdict {
  const spoken = policy
    .map((statement) => ({
      statement,
      known: statement.principals.flatMap((name) => knownAs(name, principal) ?? []),
    }))
    .filter(({ statement, known }) => known.length > 0 && applies(statement, request))
  return {
    effect: effectOf(spoken.map(({ statement }) => statement)),
    allowedAs: new Set(spoken.filter(({ statement }) => statement.allows).flatMap(({ known }) => known)),
  }
}

/** @param reason in the wording of AWS; absent if AWS gives none */
export function denied({ arn }: Principal, { action, resource }: AccessRequest, reason?: string): AwsError {
  const why = reason === undefined ? '' : ` ${reason}`
  return AwsError.of(
    'access-denied',
    `User: ${arn} is not authorized to perform: ${action} on resource: ${resource}${why}`,
  )
}

function knownAs(name: string, { account, arn, session }: Principal): KnownAs | undefined {
  if (name === '*') return 'anyone'
  if (name === account.id || name === account.iamArn('root')) return 'account'
  if (name === arn) return session ? 'session' : 'user'
  return session && name === session.role.arn ? 'role' : undefined
}
