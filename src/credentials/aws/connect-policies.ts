/** The policies that an owner pastes into the account: whom the role trusts, what it may do, and what the boxes may do. */
import { type AwsScope, parameterArn, parameterStoreServices } from './aws-partition.ts'
import { kmsResource } from './names.ts'
import { organizationPath } from './parameter-name.ts'
import { type Policy, policy } from './policies.ts'

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
