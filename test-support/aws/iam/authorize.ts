import type { Principal } from '../account.ts'
import { AwsError } from '../aws-error.ts'
import { type AccessRequest, applies, type Effect, effectOf, evaluate } from './evaluate.ts'
import type { Policy } from './policy.ts'

/** As whom a resource's policy knows a principal: the more exactly, the less its own policies are asked. */
type KnownAs = 'account' | 'anyone' | 'role' | 'session' | 'user'

/** What a policy of a resource says of a principal. */
export type ResourceVerdict = { effect: Effect; allowedAs: ReadonlySet<KnownAs> }

/** @throws AwsError unless the principal's own policies, and those of its session, allow it */
export function authorize(principal: Principal, request: AccessRequest): void {
  const refusal = ownRefusal(principal, request, true)
  if (refusal !== undefined) throw denied(principal, request, refusal)
}

/**
 * @param needsIdentity whether the identity's own policies must allow it, or only may not deny it
 * @returns why it is refused, in the words of AWS
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

/** @param reason in the words of AWS; none where AWS says none */
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
