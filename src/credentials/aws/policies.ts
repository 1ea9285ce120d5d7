/**
 * What Davit takes along when it assumes the role of an organization: a name and tags that CloudTrail shows, and a policy that
 * holds the session to the parameters of this organization, however much the role may do.
 */
import { createHash } from 'node:crypto'
import { encodeBase32 } from '../../lib/text.ts'
import { type AwsScope, parameterArn, parameterStoreServices } from './aws-partition.ts'
import { kmsResource } from './names.ts'
import { ORGANIZATION_TAG, ORGANIZATION_UID_TAG } from './owner-tags.ts'
import { organizationPath, probeName } from './parameter-name.ts'
import { roleArnParts } from './role-arn.ts'

export type PolicyStatement = {
  Sid: string
  Effect: 'Allow' | 'Deny'
  Principal?: { AWS: string }
  Action: string | readonly string[]
  Resource?: string | readonly string[]
  Condition?: Readonly<Record<string, Readonly<Record<string, string | readonly string[]>>>>
}
export type Policy = { Version: '2012-10-17'; Statement: readonly PolicyStatement[] }

/** What a session is for. `probe` may also read one parameter without a secret, so that only the role can refuse it. */
export type SessionPurpose = 'write' | 'probe'

export type SessionScope = {
  organization: string
  roleArn: string
  region: string
  kmsKeyId?: string | undefined
}

/** STS takes so many characters. */
const MAX_SESSION_NAME = 64
const HASH = 16

export function sessionName(organization: string): string {
  const name = `davit-${organization}`
  if (name.length <= MAX_SESSION_NAME) return name
  const hash = encodeBase32(createHash('sha256').update(organization).digest(), HASH)
  // No organization has a dot in its name, so none is named as another one is cut.
  return `${name.slice(0, MAX_SESSION_NAME - HASH - 1)}.${hash}`
}

export function sessionTags(of: {
  organization: string
  organizationUid: string
}): Readonly<Record<string, string>> {
  return { [ORGANIZATION_TAG]: of.organization, [ORGANIZATION_UID_TAG]: of.organizationUid }
}

/** ARN that the parameter store shows for what such a session wrote. */
export function sessionArn({ roleArn, organization }: { roleArn: string; organization: string }): string {
  const { partition, account, name } = roleArnParts(roleArn)
  return `arn:${partition}:sts::${account}:assumed-role/${name}/${sessionName(organization)}`
}

/** At most 2,048 characters as JSON, which is what STS takes. @param prefix the operator's, such as `/davit` */
export function sessionPolicy(scope: SessionScope, prefix: string, purpose: SessionPurpose): Policy {
  const { partition, account } = roleArnParts(scope.roleArn)
  const place: AwsScope = { partition, region: scope.region, account }
  const of = { prefix, organization: scope.organization }
  return purpose === 'write' ? writePolicy(scope, place, organizationPath(of)) : probePolicy(scope, place, of)
}

const WRITES = ['ssm:PutParameter', 'ssm:DeleteParameter', 'ssm:AddTagsToResource', 'ssm:ListTagsForResource']

function writePolicy(scope: SessionScope, place: AwsScope, path: string): Policy {
  return policy([
    { Sid: 'Write', Effect: 'Allow', Action: WRITES, Resource: parameterArn(place, `${path}/*`) },
    { Sid: 'Describe', Effect: 'Allow', Action: 'ssm:DescribeParameters', Resource: '*' },
    key(scope, place),
    { Sid: 'NeverRead', Effect: 'Deny', Action: 'ssm:GetParameter*', Resource: '*' },
  ])
}

/** Reading by path is allowed or refused by the path above the name. Nothing here decrypts, so no secret is ever readable. */
function probePolicy(
  scope: SessionScope,
  place: AwsScope,
  of: { prefix: string; organization: string },
): Policy {
  const path = parameterArn(place, organizationPath(of))
  return policy([
    {
      Sid: 'TryAll',
      Effect: 'Allow',
      Action: [...WRITES, 'ssm:GetParameter', 'ssm:GetParameters', 'ssm:GetParameterHistory'],
      Resource: parameterArn(place, probeName(of)),
    },
    { Sid: 'TryByPath', Effect: 'Allow', Action: 'ssm:GetParametersByPath', Resource: [path, `${path}/`] },
    key(scope, place),
  ])
}

function key(scope: SessionScope, place: AwsScope): PolicyStatement {
  return {
    Sid: 'Key',
    Effect: 'Allow',
    Action: ['kms:Encrypt', 'kms:GenerateDataKey'],
    Resource: kmsResource(scope.kmsKeyId, place),
    Condition: { StringEquals: { 'kms:ViaService': parameterStoreServices(place) } },
  }
}

export function policy(statements: readonly PolicyStatement[]): Policy {
  return { Version: '2012-10-17', Statement: statements }
}
