import type { Role, Session } from '../account.ts'
import { AwsError } from '../aws-error.ts'
import type { Call } from '../call.ts'
import type { Policy } from '../iam/policy.ts'

export const ROLE_ARN = /^arn:([a-z-]+):iam::(\d{12}):role\/[\w+=,.@/-]+$/

/** The common input of all operations that assume a role. */
type SessionInput = {
  RoleArn: string
  RoleSessionName: string
  DurationSeconds: number
  Policy?: string | undefined
  ExternalId?: string | undefined
}

type Opening = {
  role: Role
  input: SessionInput
  tags: ReadonlyMap<string, string>
  policy: Policy | undefined
  packed: number
}

export function openSession(call: Call, { role, input, tags, policy, packed }: Opening) {
  const account = accountOf(call, input.RoleArn)
  if (!account) throw AwsError.of('internal', '')
  // Whole seconds, as in the answer.
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

/** Partitions are isolated from each other. */
export function accountOf({ accounts, principal }: Call, roleArn: string) {
  const [, partition, id = ''] = ROLE_ARN.exec(roleArn) ?? []
  const account = accounts.get(id)
  const isThere = account && !account.isClosed && account.partition.name === partition
  return isThere && account.partition === principal.account.partition ? account : undefined
}
