/** The ARN of an IAM role, in its parts. */
import { ROLE_ARN } from '../../apis/aws-names.ts'

/** `path` begins and ends with a slash. */
export type RoleArn = { partition: string; account: string; path: string; name: string }

export function parseRoleArn(arn: string): RoleArn | undefined {
  const [, partition, account, path = '', , name] = ROLE_ARN.exec(arn) ?? []
  if (partition === undefined || account === undefined || name === undefined) return undefined
  return { partition, account, path: `/${path}`, name }
}

/** @throws RangeError where it is none: the API server has let only ARNs of roles through */
export function roleArnParts(arn: string): RoleArn {
  const parts = parseRoleArn(arn)
  if (parts === undefined) throw new RangeError('not the ARN of a role')
  return parts
}

const ASSUMED_ROLE = /^arn:([a-z-]+):sts::([0-9]{12}):assumed-role\/([^/]+)\/[^/]+$/

/**
 * What a trust policy names for who STS says that somebody is: a role for one of its sessions. The session does not tell
 * the role's path, so a role that has one must be given by the operator.
 */
export function principalOf(callerArn: string): string {
  const [, partition, account, name] = ASSUMED_ROLE.exec(callerArn) ?? []
  return name === undefined ? callerArn : `arn:${partition}:iam::${account}:role/${name}`
}
