import { DescribeParametersCommand } from '@aws-sdk/client-ssm'
import { AssumeRoleCommand, type AssumeRoleCommandInput } from '@aws-sdk/client-sts'
import { afterEach, describe, expect, it } from 'vitest'
import {
  ALLOW_ALL,
  type AwsBed,
  EXTERNAL_ID,
  startAwsBed,
  trustPolicy,
} from '../../../test/support/aws/bed.ts'

let bed: AwsBed
afterEach(() => bed.stop())

const OPERATOR = 'arn:aws:iam::111111111111:user/davit'
const allow = (Action: string | string[], more: Record<string, unknown> = {}) => ({
  Effect: 'Allow',
  Action,
  ...more,
})
const trusting = (...Statement: Record<string, unknown>[]) => ({ Version: '2012-10-17', Statement })
const policyOf = (length: number) => {
  const policy = JSON.stringify(trusting(allow('*', { Resource: '*' })))
  return policy + ' '.repeat(length - policy.length)
}
const tags = (count: number, valueLength = 1) =>
  Array.from({ length: count }, (_, index) => ({ Key: `t${index}`, Value: 'v'.repeat(valueLength) }))

/** With the SDK's names: it appends `Exception` to some codes of STS. */
type Row = {
  name: string
  trust?: Record<string, unknown>
  given?: Partial<AssumeRoleCommandInput>
  want: string
}

const TRUST: readonly Row[] = [
  { name: 'its own id', want: 'taken' },
  { name: 'another id', given: { ExternalId: 'davit-other' }, want: 'AccessDenied' },
  { name: 'no id', given: { ExternalId: undefined }, want: 'AccessDenied' },
  { name: 'the account of the caller', trust: trustPolicy('111111111111'), want: 'taken' },
  {
    name: 'the root of the account of the caller',
    trust: trustPolicy('arn:aws:iam::111111111111:root'),
    want: 'taken',
  },
  { name: 'everybody', trust: trustPolicy('*'), want: 'taken' },
  { name: 'another account', trust: trustPolicy('444444444444'), want: 'AccessDenied' },
  { name: 'another user', trust: trustPolicy(`${OPERATOR}-2`), want: 'AccessDenied' },
  {
    name: 'a service only',
    trust: trusting(allow('sts:AssumeRole', { Principal: { Service: 'ec2.amazonaws.com' } })),
    want: 'AccessDenied',
  },
  {
    name: 'nobody any more',
    trust: trusting(allow('sts:AssumeRole', { Principal: '*' }), {
      Effect: 'Deny',
      Action: 'sts:*',
      Principal: { AWS: OPERATOR },
    }),
    want: 'AccessDenied',
  },
  { name: 'tags', given: { Tags: tags(1) }, want: 'taken' },
  {
    name: 'tags without sts:TagSession',
    trust: trusting(allow('sts:AssumeRole', { Principal: { AWS: OPERATOR } })),
    given: { Tags: tags(1) },
    want: 'AccessDenied',
  },
  {
    name: 'tags of the right value',
    trust: trusting(
      allow(['sts:AssumeRole', 'sts:TagSession'], {
        Principal: { AWS: OPERATOR },
        Condition: {
          StringEquals: { 'aws:RequestTag/t0': 'v' },
          'ForAllValues:StringEquals': { 'aws:TagKeys': ['t0'] },
        },
      }),
    ),
    given: { Tags: tags(1) },
    want: 'taken',
  },
  {
    name: 'tags that it does not know',
    trust: trusting(
      allow(['sts:AssumeRole', 'sts:TagSession'], {
        Principal: { AWS: OPERATOR },
        Condition: { 'ForAllValues:StringEquals': { 'aws:TagKeys': ['t0'] } },
      }),
    ),
    given: { Tags: tags(2) },
    want: 'AccessDenied',
  },
  {
    name: 'a session name of its own',
    trust: trusting(
      allow('sts:AssumeRole', {
        Principal: { AWS: OPERATOR },
        Condition: { StringLike: { 'sts:RoleSessionName': 'davit-b*' } },
      }),
    ),
    want: 'AccessDenied',
  },
]

const LIMITS: readonly Row[] = [
  { name: 'a session name of 64', given: { RoleSessionName: 'n'.repeat(64) }, want: 'taken' },
  { name: 'a session name of 65', given: { RoleSessionName: 'n'.repeat(65) }, want: 'ValidationError' },
  { name: 'a session name of 1', given: { RoleSessionName: 'n' }, want: 'ValidationError' },
  { name: 'a session name with a slash', given: { RoleSessionName: 'a/b' }, want: 'ValidationError' },
  { name: 'a session policy of 2,048', given: { Policy: policyOf(2_048) }, want: 'taken' },
  { name: 'a session policy of 2,049', given: { Policy: policyOf(2_049) }, want: 'ValidationError' },
  {
    name: 'a session policy that is none',
    given: { Policy: '{}' },
    want: 'MalformedPolicyDocumentException',
  },
  { name: '50 tags', given: { Tags: tags(50) }, want: 'taken' },
  { name: '51 tags', given: { Tags: tags(51) }, want: 'ValidationError' },
  {
    name: 'a tag of 128 and 256',
    given: { Tags: [{ Key: 'k'.repeat(128), Value: 'v'.repeat(256) }] },
    want: 'taken',
  },
  { name: 'a key of 129', given: { Tags: [{ Key: 'k'.repeat(129), Value: '' }] }, want: 'ValidationError' },
  {
    name: 'a value of 257',
    given: { Tags: [{ Key: 'k', Value: 'v'.repeat(257) }] },
    want: 'ValidationError',
  },
  {
    name: 'a value with an exclamation mark',
    given: { Tags: [{ Key: 'k', Value: '!' }] },
    want: 'ValidationError',
  },
  {
    name: 'one key twice',
    given: {
      Tags: [
        { Key: 'k', Value: '' },
        { Key: 'K', Value: '' },
      ],
    },
    want: 'InvalidParameterValue',
  },
  {
    name: 'tags that are too large together',
    given: { Tags: tags(9, 250) },
    want: 'PackedPolicyTooLargeException',
  },
  { name: 'an external id of 1,224', given: { ExternalId: 'e'.repeat(1_224) }, want: 'AccessDenied' },
  { name: 'an external id of 1,225', given: { ExternalId: 'e'.repeat(1_225) }, want: 'ValidationError' },
  { name: 'an external id of one character', given: { ExternalId: 'e' }, want: 'ValidationError' },
  { name: '15 minutes', given: { DurationSeconds: 900 }, want: 'taken' },
  { name: 'less', given: { DurationSeconds: 899 }, want: 'ValidationError' },
  { name: 'an hour', given: { DurationSeconds: 3_600 }, want: 'taken' },
  { name: 'more than the role has', given: { DurationSeconds: 3_601 }, want: 'ValidationError' },
  {
    name: 'a role of another partition',
    given: { RoleArn: 'arn:aws-cn:iam::222222222222:role/davit-writer' },
    want: 'AccessDenied',
  },
  {
    name: 'what is no role',
    given: { RoleArn: 'arn:aws:iam::222222222222:user/davit-writer' },
    want: 'ValidationError',
  },
]

async function outcome({ trust, given }: Row): Promise<string> {
  bed = await startAwsBed(trust ? { trust } : {})
  return bed.assume(given).then(
    () => 'taken',
    (error: Error) => error.name,
  )
}

describe('AssumeRole', () => {
  for (const row of TRUST)
    it(`with a role that trusts ${row.name}: ${row.want}`, async () =>
      expect(await outcome(row)).toBe(row.want))
  for (const row of LIMITS)
    it(`with ${row.name}: ${row.want}`, async () => expect(await outcome(row)).toBe(row.want))

  it('needs the policies of the caller as well', async () => {
    bed = await startAwsBed()
    const powerless = bed.operator.account.addUser('powerless')
    bed.organization.account.changeRole(bed.organization.role, { trust: trustPolicy(powerless.arn) })
    const sts = bed.sts(bed.operator.account.addAccessKey(powerless))
    const command = {
      RoleArn: bed.organization.role.arn,
      RoleSessionName: 'davit-acme',
      ExternalId: EXTERNAL_ID,
    }
    await expect(sts.send(new AssumeRoleCommand(command))).rejects.toMatchObject({ name: 'AccessDenied' })
  })

  it('of a role by a role lasts an hour at most', async () => {
    bed = await startAwsBed()
    const { account, role } = bed.organization
    const next = account.addRole('next', { trust: trustPolicy(role.arn), maxSessionSeconds: 43_200 })
    const sts = bed.sts(await bed.assume())
    const chain = (DurationSeconds: number) =>
      sts.send(
        new AssumeRoleCommand({
          RoleArn: next.arn,
          RoleSessionName: 'chained',
          ExternalId: EXTERNAL_ID,
          DurationSeconds,
        }),
      )
    await expect(chain(3_601)).rejects.toMatchObject({ name: 'ValidationError' })
    expect((await chain(3_600)).AssumedRoleUser?.Arn).toBe(
      'arn:aws:sts::222222222222:assumed-role/next/chained',
    )
  })

  it('gives a session that ends with its role and its account', async () => {
    bed = await startAwsBed()
    const { account } = bed.organization
    const role = account.addRole('short-lived', {
      trust: trustPolicy(OPERATOR),
      policies: { all: ALLOW_ALL },
    })
    const ssm = bed.ssm(await bed.assume({ RoleArn: role.arn }))
    await ssm.send(new DescribeParametersCommand({}))
    account.removeRole(role)
    const unknown = { name: 'UnrecognizedClientException' }
    await expect(ssm.send(new DescribeParametersCommand({}))).rejects.toMatchObject(unknown)
    const other = bed.ssm(await bed.assume())
    account.close()
    await expect(other.send(new DescribeParametersCommand({}))).rejects.toMatchObject(unknown)
    await expect(bed.assume()).rejects.toMatchObject({ name: 'AccessDenied' })
  })
})
