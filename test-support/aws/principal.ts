import type { Account, Role } from './account.ts'
import type { Policy } from './iam/policy.ts'

/** Who asks: a user with an access key, or somebody who has assumed a role. */
export type Principal = {
  account: Account
  /** Of the user, or of the session of the role. */
  arn: string
  /** As GetCallerIdentity says it. */
  userId: string
  /** Tags of the user or role, and of the session over them. */
  tags: ReadonlyMap<string, string>
  policies: readonly Policy[]
  userName?: string
  session?: Session
}

/** What AssumeRole made. */
export type Session = {
  role: Role
  name: string
  /** Text of the inline session policy as it was sent, and what it means. */
  policyText: string | undefined
  policy: Policy | undefined
  tags: ReadonlyMap<string, string>
  externalId: string | undefined
  /** ARN of who assumed the role. */
  caller: string
  issuedAt: number
  expiresAt: number
}

export type Credentials = { accessKeyId: string; secretAccessKey: string }
