import { createHash } from 'node:crypto'
import { encodeBase32 } from '../../lib/text.ts'
import {
  type AwsScope,
  kmsResource,
  ORGANIZATION_TAG,
  ORGANIZATION_UID_TAG,
  organizationPath,
  parameterArn,
  parameterStoreServices,
  probeName,
  roleArnParts,
} from './names.ts'

/**
 * What Davit takes along when it assumes the role of an organization: a name and tags that CloudTrail shows, and a policy that
 * holds the session to the parameters of this organization, however much the role may do.
 */

export type PolicyStatement = {
  Sid: string
  Effect: 'Allow' | 'Deny'
  Principal?: { AWS: string }
  Action: string | readonly string[]
  Resource?: string | readonly string[]
  Condition?: Readonly<Record<string, Readonly<Record<string, string | readonly string[]>>>>
}
type Policy = { Version: '2012-10-17'; Statement: readonly PolicyStatement[] }

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

function policy(statements: readonly PolicyStatement[]): Policy {
  return { Version: '2012-10-17', Statement: statements }
}

/** The policies that an owner pastes into the account: whom the role trusts, what it may do, and what the boxes may do. */

export type PolicyScope = {
  awsScope: AwsScope
  prefix: string
  organization: string
  kmsKeyId?: string | undefined
}

/** Names of the statements, for messages that say which one is missing. */
export const ASSUME_STATEMENT = 'AssumeByDavit'
export const TAG_STATEMENT = 'TagSessions'
export const WRITE_STATEMENT = 'WriteSecrets'
export const LIST_STATEMENT = 'ListSecrets'
export const ENCRYPT_STATEMENT = 'EncryptSecrets'
export const NEVER_READ_STATEMENT = 'NeverReadSecrets'

/** @param principal ARN of the operator's own identity */
export function trustPolicy({ principal, externalId }: { principal: string; externalId: string }): Policy {
  return policy([
    {
      Sid: ASSUME_STATEMENT,
      Effect: 'Allow',
      Principal: { AWS: principal },
      Action: 'sts:AssumeRole',
      Condition: { StringEquals: { 'sts:ExternalId': externalId } },
    },
    // The request for tags does not carry the external id, and gives nobody a session.
    { Sid: TAG_STATEMENT, Effect: 'Allow', Principal: { AWS: principal }, Action: 'sts:TagSession' },
  ])
}

/** Write, list and remove, and never read. */
export function writerPolicy(scope: PolicyScope): Policy {
  return policy([
    {
      Sid: WRITE_STATEMENT,
      Effect: 'Allow',
      Action: ['ssm:PutParameter', 'ssm:DeleteParameter', 'ssm:AddTagsToResource', 'ssm:ListTagsForResource'],
      Resource: secretsOf(scope),
    },
    { Sid: LIST_STATEMENT, Effect: 'Allow', Action: 'ssm:DescribeParameters', Resource: '*' },
    {
      Sid: ENCRYPT_STATEMENT,
      Effect: 'Allow',
      Action: 'kms:Encrypt',
      Resource: kmsResource(scope.kmsKeyId, scope.awsScope),
      Condition: { StringEquals: { 'kms:ViaService': parameterStoreServices(scope.awsScope) } },
    },
    { Sid: NEVER_READ_STATEMENT, Effect: 'Deny', Action: 'ssm:GetParameter*', Resource: '*' },
  ])
}

/** For the role of the boxes that bake and run: read the secrets, pull from the account's own ECR, and never write. */
export function readerPolicy(scope: PolicyScope): Policy {
  const { partition, account } = scope.awsScope
  return policy([
    { Sid: 'ReadSecrets', Effect: 'Allow', Action: 'ssm:GetParameter', Resource: secretsOf(scope) },
    {
      Sid: 'DecryptSecrets',
      Effect: 'Allow',
      Action: 'kms:Decrypt',
      Resource: kmsResource(scope.kmsKeyId, scope.awsScope),
      Condition: {
        StringEquals: { 'kms:ViaService': parameterStoreServices(scope.awsScope) },
        StringLike: { 'kms:EncryptionContext:PARAMETER_ARN': secretsOf(scope) },
      },
    },
    { Sid: 'LoginToEcr', Effect: 'Allow', Action: 'ecr:GetAuthorizationToken', Resource: '*' },
    {
      Sid: 'PullFromEcr',
      Effect: 'Allow',
      Action: ['ecr:BatchCheckLayerAvailability', 'ecr:GetDownloadUrlForLayer', 'ecr:BatchGetImage'],
      Resource: `arn:${partition}:ecr:*:${account}:repository/*`,
    },
  ])
}

export function policyText(value: Policy): string {
  return JSON.stringify(value, null, 2)
}

function secretsOf(scope: PolicyScope): string {
  return parameterArn(scope.awsScope, `${organizationPath(scope)}/*`)
}
