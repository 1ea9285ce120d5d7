import { describe, expect, test } from 'vitest'
import { awsScopeOf } from './names.ts'
import { policyText, readerPolicy, trustPolicy, writerPolicy } from './policies.ts'

const SCOPE = { awsScope: awsScopeOf('eu-west-1', '123456789012'), prefix: '/davit', organization: 'acme' }
const SECRETS = 'arn:aws:ssm:eu-west-1:123456789012:parameter/davit/acme/*'
const VIA = { 'kms:ViaService': ['ssm.eu-west-1.amazonaws.com'] }

test('the trust policy asks Davit for the external id of the organization', () => {
  const principal = 'arn:aws:iam::210987654321:role/davit'
  expect(trustPolicy({ principal, externalId: 'davit-1' }).Statement).toEqual([
    {
      Sid: 'AssumeByDavit',
      Effect: 'Allow',
      Principal: { AWS: principal },
      Action: 'sts:AssumeRole',
      Condition: { StringEquals: { 'sts:ExternalId': 'davit-1' } },
    },
    { Sid: 'TagSessions', Effect: 'Allow', Principal: { AWS: principal }, Action: 'sts:TagSession' },
  ])
})

describe('the policy of the writer', () => {
  const { Statement: statements } = writerPolicy(SCOPE)

  test('writes, lists and removes the secrets of the organization alone', () => {
    expect(statements).toEqual([
      {
        Sid: 'WriteSecrets',
        Effect: 'Allow',
        Action: [
          'ssm:PutParameter',
          'ssm:DeleteParameter',
          'ssm:AddTagsToResource',
          'ssm:ListTagsForResource',
        ],
        Resource: SECRETS,
      },
      { Sid: 'ListSecrets', Effect: 'Allow', Action: 'ssm:DescribeParameters', Resource: '*' },
      {
        Sid: 'EncryptSecrets',
        Effect: 'Allow',
        Action: 'kms:Encrypt',
        Resource: 'arn:aws:kms:eu-west-1:123456789012:key/*',
        Condition: { StringEquals: VIA },
      },
      { Sid: 'NeverReadSecrets', Effect: 'Deny', Action: 'ssm:GetParameter*', Resource: '*' },
    ])
  })

  test('reads nothing', () => {
    const allowed = statements.filter(({ Effect }) => Effect === 'Allow').flatMap(({ Action }) => Action)
    expect(allowed.filter((action) => /Get|Decrypt|\*/.test(action))).toEqual([])
  })
})

test('the policy of the reader reads and decrypts the secrets of the organization, pulls, and writes nothing', () => {
  expect(readerPolicy(SCOPE).Statement).toEqual([
    { Sid: 'ReadSecrets', Effect: 'Allow', Action: 'ssm:GetParameter', Resource: SECRETS },
    {
      Sid: 'DecryptSecrets',
      Effect: 'Allow',
      Action: 'kms:Decrypt',
      Resource: 'arn:aws:kms:eu-west-1:123456789012:key/*',
      Condition: {
        StringEquals: VIA,
        StringLike: { 'kms:EncryptionContext:PARAMETER_ARN': SECRETS },
      },
    },
    { Sid: 'LoginToEcr', Effect: 'Allow', Action: 'ecr:GetAuthorizationToken', Resource: '*' },
    {
      Sid: 'PullFromEcr',
      Effect: 'Allow',
      Action: ['ecr:BatchCheckLayerAvailability', 'ecr:GetDownloadUrlForLayer', 'ecr:BatchGetImage'],
      Resource: 'arn:aws:ecr:*:123456789012:repository/*',
    },
  ])
})

test.each([
  { repositoryPrefix: 'boxes/', want: 'repository/boxes/*' },
  { repositoryPrefix: 'acme', want: 'repository/acme*' },
  { repositoryPrefix: 'teams/a.b_c-d/', want: 'repository/teams/a.b_c-d/*' },
  { repositoryPrefix: undefined, want: 'repository/*' },
])('with the prefix $repositoryPrefix, the reader pulls from $want alone', ({ repositoryPrefix, want }) => {
  const pulls = readerPolicy({ ...SCOPE, repositoryPrefix }).Statement.find(
    ({ Sid }) => Sid === 'PullFromEcr',
  )
  expect(pulls?.Resource).toBe(`arn:aws:ecr:*:123456789012:${want}`)
  expect(writerPolicy({ ...SCOPE, repositoryPrefix })).toEqual(writerPolicy(SCOPE))
})

test.each([
  ['cn-north-1', 'arn:aws-cn:', ['ssm.cn-north-1.amazonaws.com', 'ssm.cn-north-1.amazonaws.com.cn']],
  ['us-gov-west-1', 'arn:aws-us-gov:', ['ssm.us-gov-west-1.amazonaws.com']],
  ['us-iso-east-1', 'arn:aws-iso:', ['ssm.us-iso-east-1.amazonaws.com', 'ssm.us-iso-east-1.c2s.ic.gov']],
  [
    'us-isob-east-1',
    'arn:aws-iso-b:',
    ['ssm.us-isob-east-1.amazonaws.com', 'ssm.us-isob-east-1.sc2s.sgov.gov'],
  ],
  [
    'eu-isoe-west-1',
    'arn:aws-iso-e:',
    ['ssm.eu-isoe-west-1.amazonaws.com', 'ssm.eu-isoe-west-1.cloud.adc-e.uk'],
  ],
  [
    'us-isof-south-1',
    'arn:aws-iso-f:',
    ['ssm.us-isof-south-1.amazonaws.com', 'ssm.us-isof-south-1.csp.hci.ic.gov'],
  ],
  [
    'eusc-de-east-1',
    'arn:aws-eusc:',
    ['ssm.eusc-de-east-1.amazonaws.com', 'ssm.eusc-de-east-1.amazonaws.eu'],
  ],
])('in %s every ARN is of %s', (region, arn, services) => {
  const scope = { ...SCOPE, awsScope: awsScopeOf(region, '*') }
  const texts = [policyText(writerPolicy(scope)), policyText(readerPolicy(scope))]
  for (const text of texts) {
    const arns = text.match(/"arn:[^"]*"/g) ?? []
    expect(arns.length).toBeGreaterThan(1)
    expect(arns.filter((one) => !one.startsWith(`"${arn}`))).toEqual([])
  }
  expect(writerPolicy(scope).Statement[2]?.Condition).toEqual({
    StringEquals: { 'kms:ViaService': services },
  })
})

test('as text they fit into IAM and into the status', () => {
  const scope = {
    awsScope: awsScopeOf('us-gov-west-1', '123456789012'),
    prefix: `/${'a'.repeat(99)}`,
    organization: 'a'.repeat(63),
    kmsKeyId: `mrk-${'0'.repeat(32)}`,
    repositoryPrefix: 'a'.repeat(256),
  }
  for (const policy of [writerPolicy(scope), readerPolicy(scope)]) {
    expect(JSON.stringify(policy).length).toBeLessThanOrEqual(6144)
    expect(policyText(policy).length).toBeLessThanOrEqual(8192)
    expect(JSON.parse(policyText(policy))).toEqual(policy)
  }
})
