/** Source: STS API Reference, AssumeRole; IAM User Guide, "Pass session tags in AWS STS", "Role chaining". */
import type { Role } from '../account.ts'
import { AwsError } from '../aws-error.ts'
import { type Call, operation } from '../call.ts'
import { denied, ownRefusal, resourceVerdict } from '../iam/authorize.ts'
import type { AccessRequest } from '../iam/evaluate.ts'
import { type Policy, parsePolicy } from '../iam/policy.ts'
import type { Session } from '../principal.ts'
import { type AssumeRoleInput, assumeRoleInput } from './assume-role-input.ts'
import { packedSize } from './packed-policy.ts'

const ROLE_ARN = /^arn:([a-z-]+):iam::(\d{12}):role\/[\w+=,.@/-]+$/
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

type Opening = {
  role: Role
  input: AssumeRoleInput
  tags: ReadonlyMap<string, string>
  policy: Policy | undefined
  packed: number
}

function openSession(call: Call, { role, input, tags, policy, packed }: Opening) {
  const account = accountOf(call, input.RoleArn)
  if (!account) throw AwsError.of('internal', '')
  // Whole seconds, as the answer says it.
  const expiresAt = Math.floor(call.now / 1000 + input.DurationSeconds) * 1000
  const session: Session = {
    role,
    name: input.RoleSessionName,
    policyText: input.Policy,
    policy,
    tags,
    externalId: input.ExternalId,
    caller: call.principal.arn,
    issuedAt: call.now,
    expiresAt,
  }
  const { accessKeyId, secretAccessKey, sessionToken } = call.accounts.keys.addSession(account, session)
  return {
    Credentials: {
      AccessKeyId: accessKeyId,
      SecretAccessKey: secretAccessKey,
      SessionToken: sessionToken,
      Expiration: new Date(expiresAt).toISOString().replace('.000Z', 'Z'),
    },
    AssumedRoleUser: {
      AssumedRoleId: `${role.id}:${session.name}`,
      Arn: `arn:${account.partition.name}:sts::${account.id}:assumed-role/${role.name}/${session.name}`,
    },
    PackedPolicySize: packed > 0 ? packed : undefined,
  }
}

/** A role that is not there is refused like one that does not trust. */
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

/** Partitions do not know each other. */
function accountOf({ accounts, principal }: Call, roleArn: string) {
  const [, partition, id = ''] = ROLE_ARN.exec(roleArn) ?? []
  const account = accounts.get(id)
  const isThere = account && !account.isClosed && account.partition.name === partition
  return isThere && account.partition === principal.account.partition ? account : undefined
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

/** Keys of tags do not heed case. */
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
