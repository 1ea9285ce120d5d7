import { describe, expect, test } from 'vitest'
import { fc } from '../../../test/support/fast-check.ts'
import { AWS_PARTITIONS, KMS_KEY } from '../../apis/aws-names.ts'
import { sessionArn, sessionName, sessionPolicy, sessionTags } from './policies.ts'

const ROLE = 'arn:aws:iam::123456789012:role/teams/davit-secrets'
const SCOPE = { organization: 'acme', roleArn: ROLE, region: 'eu-west-1' }
const PATH = 'arn:aws:ssm:eu-west-1:123456789012:parameter/davit/acme'

describe('the session of an organization', () => {
  test('has its name and tags', () => {
    expect(sessionName('acme')).toBe('davit-acme')
    expect(sessionTags({ organization: 'acme', organizationUid: 'u-1' })).toEqual({
      'davit.dev/organization': 'acme',
      'davit.dev/organization-uid': 'u-1',
    })
  })

  test('is shown without the path of the role', () => {
    expect(sessionArn(SCOPE)).toBe('arn:aws:sts::123456789012:assumed-role/davit-secrets/davit-acme')
  })

  test('has a name that STS takes, and that no other organization has', () => {
    const label = fc.stringMatching(/^[a-z0-9][a-z0-9-]{50,61}[a-z0-9]$/)
    fc.assert(
      fc.property(label, label, (a, b) => {
        expect(sessionName(a)).toMatch(/^[\w+=,.@-]{2,64}$/)
        expect(sessionName(a) === sessionName(b)).toBe(a === b)
      }),
    )
    const long = 'a'.repeat(62)
    expect(sessionName(`${long}b`)).not.toBe(sessionName(`${long}c`))
    const cut = sessionName(`${long}b`)
    expect(sessionName(cut.slice('davit-'.length).replace('.', '-'))).not.toBe(cut)
  })
})

describe('the policy of a session', () => {
  test('allows writing under the organization alone, and denies every reading', () => {
    expect(sessionPolicy(SCOPE, '/davit', 'write').Statement).toEqual([
      {
        Sid: 'Write',
        Effect: 'Allow',
        Action: [
          'ssm:PutParameter',
          'ssm:DeleteParameter',
          'ssm:AddTagsToResource',
          'ssm:ListTagsForResource',
        ],
        Resource: `${PATH}/*`,
      },
      { Sid: 'Describe', Effect: 'Allow', Action: 'ssm:DescribeParameters', Resource: '*' },
      {
        Sid: 'Key',
        Effect: 'Allow',
        Action: ['kms:Encrypt', 'kms:GenerateDataKey'],
        Resource: 'arn:aws:kms:eu-west-1:123456789012:key/*',
        Condition: { StringEquals: { 'kms:ViaService': ['ssm.eu-west-1.amazonaws.com'] } },
      },
      { Sid: 'NeverRead', Effect: 'Deny', Action: 'ssm:GetParameter*', Resource: '*' },
    ])
  })

  test('that tries reading allows it of the parameter without a secret alone, and decrypts nothing', () => {
    const { Statement: statements } = sessionPolicy(SCOPE, '/davit', 'probe')
    const reads = statements.flatMap(({ Action, Resource }) =>
      [Action].flat().flatMap((action) => (action.startsWith('ssm:Get') ? [[action, Resource]] : [])),
    )
    expect(reads).toEqual([
      ['ssm:GetParameter', `${PATH}/rc__probe`],
      ['ssm:GetParameters', `${PATH}/rc__probe`],
      ['ssm:GetParameterHistory', `${PATH}/rc__probe`],
      ['ssm:GetParametersByPath', [PATH, `${PATH}/`]],
    ])
    expect(statements.every(({ Effect }) => Effect === 'Allow')).toBe(true)
    expect(statements.flatMap(({ Action }) => Action)).not.toContain('kms:Decrypt')
  })

  test('names the key that was given', () => {
    const id = '1234abcd-12ab-34cd-56ef-1234567890ab'
    const { Statement: statements } = sessionPolicy({ ...SCOPE, kmsKeyId: id }, '/davit', 'write')
    expect(statements.find(({ Sid }) => Sid === 'Key')?.Resource).toBe(
      `arn:aws:kms:eu-west-1:123456789012:key/${id}`,
    )
  })

  test('has at most 2,048 characters, whatever is long', () => {
    const scope = fc.record({
      organization: fc.constantFrom('a', 'a'.repeat(63)),
      partition: fc.constantFrom(...AWS_PARTITIONS),
      prefix: fc.constantFrom('/davit', `/${'a'.repeat(99)}`),
      region: fc.constantFrom('east-1', `${'a'.repeat(17)}-1`),
      kmsKeyId: fc.constantFrom(undefined, `mrk-${'0'.repeat(32)}`, `alias/${'a'.repeat(250)}`),
      purpose: fc.constantFrom('write' as const, 'probe' as const),
    })
    fc.assert(
      fc.property(scope, ({ organization, partition, prefix, region, kmsKeyId, purpose }) => {
        if (kmsKeyId) expect(kmsKeyId).toMatch(KMS_KEY)
        const roleArn = `arn:${partition.name}:iam::123456789012:role/${'a/'.repeat(200)}${'r'.repeat(64)}`
        const policy = sessionPolicy(
          { organization, roleArn, region: partition.regions + region, kmsKeyId },
          prefix,
          purpose,
        )
        expect(JSON.stringify(policy).length).toBeLessThanOrEqual(2048)
      }),
    )
  })
})
