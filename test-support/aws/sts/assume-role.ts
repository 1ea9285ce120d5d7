/** Source: STS API Reference, AssumeRole; IAM User Guide, "Pass session tags in AWS STS", "Role chaining". */
import type { Role } from '../account.ts'
import { AwsError } from '../aws-error.ts'
import { type Call, operation } from '../call.ts'
import { denied, ownRefusal, resourceVerdict } from '../iam/authorize.ts'
import type { AccessRequest } from '../iam/evaluate.ts'
import { parsePolicy } from '../iam/policy.ts'
import { type AssumeRoleInput, assumeRoleInput } from './assume-role-input.ts'
import { accountOf, openSession, ROLE_ARN } from './open-session.ts'
import { packedSize } from './packed-policy.ts'

const LONGEST_CHAIN_SECONDS = 3_600

export const assumeRole = operation('AssumeRole', {
  family: 'sts',
  input: assumeRoleInput,
  accountOf: ({ RoleArn }) => ROLE_ARN.exec(RoleArn)?.[2],
  run(call, input) {
    if (!ROLE_ARN.test(input.RoleArn)) throw AwsError.of('validation', `${input.RoleArn} is invalid`)
    const tags = tagsOf(input)
    const policy = input.Policy === undefined ? undefined : parsePolicy(input.Policy, 'session')
    const role = authorizeRole(call, input, tags)
    checkDuration(call, role, input.DurationSeconds)
    const packed = packedSize(input.Policy, tags)
    return openSession(call, { role, input, tags, policy, packed })
  },
})

/** A missing role gets the same error as one that does not trust the caller. */
function authorizeRole(call: Call, input: AssumeRoleInput, tags: ReadonlyMap<string, string>): Role {
  const account = accountOf(call, input.RoleArn)
  const role = account?.role(input.RoleArn)
  const context = call.context
    .with({
      'aws:ResourceAccount': account?.id,
      'aws:TagKeys': tags.size > 0 ? [...tags.keys()] : undefined,
      'sts:ExternalId': input.ExternalId,
      'sts:RoleSessionName': input.RoleSessionName,
    })
    .setAll('aws:RequestTag/', tags)
    .setAll('aws:ResourceTag/', role?.tags ?? [])
  const actions = tags.size > 0 ? ['sts:AssumeRole', 'sts:TagSession'] : ['sts:AssumeRole']
  for (const action of actions) {
    const request = { action, resource: input.RoleArn, context }
    if (!role || !isTrusted(call, role, request)) throw denied(call.principal, request)
  }
  if (!role) throw AwsError.of('internal', '')
  return role
}

/**
 * In another account, the role must trust the caller and the caller's own policies must allow it; in the same account, a role
 * that names the caller itself is enough.
 */
function isTrusted({ principal }: Call, role: Role, request: AccessRequest): boolean {
  const { effect, allowedAs } = resourceVerdict(role.trust, principal, request)
  if (effect !== 'allow') return false
  const isOwn = principal.account.role(role.arn) === role
  const isNamed = (['role', 'session', 'user', 'anyone'] as const).some((as) => allowedAs.has(as))
  return ownRefusal(principal, request, !(isOwn && isNamed)) === undefined
}

function checkDuration({ principal }: Call, role: Role, seconds: number): void {
  if (principal.session && seconds > LONGEST_CHAIN_SECONDS)
    throw AwsError.of(
      'validation',
      'The requested DurationSeconds exceeds the 1 hour session limit for roles assumed by role chaining',
    )
  if (seconds > role.maxSessionSeconds)
    throw AwsError.of(
      'validation',
      'The requested DurationSeconds exceeds the MaxSessionDuration set for this role.',
    )
}

/** Tag keys are case-insensitive. */
function tagsOf({ Tags }: AssumeRoleInput): Map<string, string> {
  const keys = new Set(Tags.map(({ Key }) => Key.toLowerCase()))
  if (keys.size < Tags.length)
    throw AwsError.coded(
      'InvalidParameterValue',
      'Duplicate tag keys found. Please note that Tag keys are case insensitive.',
    )
  if (Tags.some(({ Key }) => /^aws:/i.test(Key)))
    throw AwsError.of('validation', 'Tag keys starting with "aws:" are reserved for system use')
  return new Map(Tags.map(({ Key, Value }) => [Key, Value]))
}
