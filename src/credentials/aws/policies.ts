/**
 * The IAM policies of Davit. Pure. When Davit assumes the role of an organization, a session policy restricts it to the parameters of this
 * organization, however much the role may do. The owner pastes the others into the account.
 */
import { createHash } from 'node:crypto'
import { encodeBase32 } from '../../lib/text.ts'
import {
  type AwsScope,
  kmsResource,
  organizationPath,
  parameterArn,
  parameterStoreServices,
  probeName,
  roleArnParts,
} from './names.ts'
import { ORGANIZATION_TAG, ORGANIZATION_UID_TAG } from './parameter-tags.ts'

export type PolicyStatement = {
  Sid: string
  Effect: 'Allow' | 'Deny'
  Principal?: { AWS: string }
  Action: string | readonly string[]
  Resource?: string | readonly string[]
  Condition?: Readonly<Record<string, Readonly<Record<string, string | readonly string[]>>>>
}
type Policy = { Version: '2012-10-17'; Statement: readonly PolicyStatement[] }

/** `write` never reads; `probe` may also read one parameter without a secret, so that only the role can refuse it. */
export type SessionPurpose = 'write' | 'probe'

export type SessionScope = {
  organization: string
  roleArn: string
  region: string
  kmsKeyId?: string | undefined
}

const MAX_SESSION_NAME = 64
const HASH = 16

export function sessionName(organization: string): string {
  const name = `davit-${organization}`
  if (name.length <= MAX_SESSION_NAME) return name
  const hash = encodeBase32(createHash('sha256').update(organization).digest(), HASH)
  // Organizations have no dots in their names, so no other name equals a shortened one.
  return `${name.slice(0, MAX_SESSION_NAME - HASH - 1)}.${hash}`
}

export function sessionTags(of: {
  organization: string
  organizationUid: string
}): Readonly<Record<string, string>> {
  return { [ORGANIZATION_TAG]: of.organization, [ORGANIZATION_UID_TAG]: of.organizationUid }
}

/** ARN that the parameter store shows as the writer. */
export function sessionArn({ roleArn, organization }: { roleArn: string; organization: string }): string {
  const { partition, account, name } = roleArnParts(roleArn)
  return `arn:${partition}:sts::${account}:assumed-role/${name}/${sessionName(organization)}`
}

/** At most 2,048 characters as JSON, the limit of STS. @param prefix such as `/davit` */
export function sessionPolicy(scope: SessionScope, prefix: string, purpose: SessionPurpose): Policy {
  const { partition, account } = roleArnParts(scope.roleArn)
  const place: AwsScope = { partition, region: scope.region, account }
  const of = { prefix, organization: scope.organization }
  return purpose === 'write' ? writePolicy(scope, place, organizationPath(of)) : probePolicy(scope, place, of)
}

const WRITE_ACTIONS = [
  'ssm:PutParameter',
  'ssm:DeleteParameter',
  'ssm:AddTagsToResource',
  'ssm:ListTagsForResource',
]

function writePolicy(scope: SessionScope, place: AwsScope, path: string): Policy {
  return policy([
    { Sid: 'Write', Effect: 'Allow', Action: WRITE_ACTIONS, Resource: parameterArn(place, `${path}/*`) },
    { Sid: 'Describe', Effect: 'Allow', Action: 'ssm:DescribeParameters', Resource: '*' },
    key(scope, place),
    { Sid: 'NeverRead', Effect: 'Deny', Action: 'ssm:GetParameter*', Resource: '*' },
  ])
}

/** Reading by path is authorized on the path above the name. Nothing here decrypts, so no secret ever becomes readable. */
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
      Action: [...WRITE_ACTIONS, 'ssm:GetParameter', 'ssm:GetParameters', 'ssm:GetParameterHistory'],
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

export type PolicyScope = {
  awsScope: AwsScope
  prefix: string
  organization: string
  kmsKeyId?: string | undefined
  repositoryPrefix?: string | undefined
}

/** Statement names, for messages about a missing one. */
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
    // A request for tags carries no external id, and yields no session.
    { Sid: TAG_STATEMENT, Effect: 'Allow', Principal: { AWS: principal }, Action: 'sts:TagSession' },
  ])
}

export function writerPolicy(scope: PolicyScope): Policy {
  return policy([
    {
      Sid: WRITE_STATEMENT,
      Effect: 'Allow',
      Action: WRITE_ACTIONS,
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

/** For the role of boxes: may read the secrets and pull from the account's own ECR, by the prefix if there is one, and never write. */
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
      Resource: `arn:${partition}:ecr:*:${account}:repository/${scope.repositoryPrefix ?? ''}*`,
    },
  ])
}

export function policyText(value: Policy): string {
  return JSON.stringify(value, null, 2)
}

function secretsOf(scope: PolicyScope): string {
  return parameterArn(scope.awsScope, `${organizationPath(scope)}/*`)
}
