/** Permissions on parameters and on the keys that encrypt them. */
import {
  AddTagsToResourceCommand,
  DeleteParameterCommand,
  DeleteParametersCommand,
  DescribeParametersCommand,
  GetParameterCommand,
  GetParameterHistoryCommand,
  GetParametersByPathCommand,
  GetParametersCommand,
  ListTagsForResourceCommand,
  PutParameterCommand,
  RemoveTagsFromResourceCommand,
  type SSMClient,
} from '@aws-sdk/client-ssm'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { ALLOW_ALL, type AwsBed, REGION, startAwsBed } from '../../../test/support/aws/bed.ts'
import type { PolicyDocument } from '../iam/policy.ts'

const NAME = '/davit/acme/rc_x'
const tag = { ResourceType: 'Parameter' as const, ResourceId: NAME }
const COMMANDS = {
  put: () => new PutParameterCommand({ Name: NAME, Value: 'v', Type: 'SecureString', Overwrite: true }),
  'put with tags': () =>
    new PutParameterCommand({
      Name: '/davit/acme/rc_y',
      Value: 'v',
      Type: 'String',
      Tags: [{ Key: 'a', Value: 'b' }],
    }),
  get: () => new GetParameterCommand({ Name: NAME }),
  'get decrypted': () => new GetParameterCommand({ Name: NAME, WithDecryption: true }),
  'get several': () => new GetParametersCommand({ Names: [NAME, '/davit/beta/rc_x'] }),
  'get by path': () => new GetParametersByPathCommand({ Path: '/davit/acme' }),
  'get by a path above': () => new GetParametersByPathCommand({ Path: '/davit', Recursive: true }),
  history: () => new GetParameterHistoryCommand({ Name: NAME }),
  describe: () => new DescribeParametersCommand({}),
  delete: () => new DeleteParameterCommand({ Name: NAME }),
  'delete several': () => new DeleteParametersCommand({ Names: [NAME] }),
  tag: () => new AddTagsToResourceCommand({ ...tag, Tags: [{ Key: 'a', Value: 'b' }] }),
  untag: () => new RemoveTagsFromResourceCommand({ ...tag, TagKeys: ['owner'] }),
  'list tags': () => new ListTagsForResourceCommand(tag),
}
type Command = keyof typeof COMMANDS

let bed: AwsBed
let ssm: SSMClient
beforeEach(async () => {
  bed = await startAwsBed()
  ssm = bed.ssm(await bed.assume())
  const Tags = [{ Key: 'owner', Value: 'davit' }]
  await ssm.send(new PutParameterCommand({ Name: NAME, Value: 'v', Type: 'SecureString', Tags }))
  await ssm.send(new PutParameterCommand({ Name: '/davit/beta/rc_x', Value: 'v', Type: 'String' }))
})
afterEach(async () => {
  expect(bed.aws.defects).toEqual([])
  await bed.stop()
})

const allow = (Action: string | string[], path: string, more: Record<string, unknown> = {}) => ({
  Effect: 'Allow',
  Action,
  Resource: path === '*' ? '*' : `arn:aws:ssm:*:*:parameter${path}`,
  ...more,
})
const KMS = { Effect: 'Allow', Action: 'kms:*', Resource: '*' }
const acme = (action: string) => allow(action, '/davit/acme/*')

type Row = { name: string; command: Command; given: Record<string, unknown>[]; want: 'denied' | 'taken' }
const ROWS: readonly Row[] = [
  { name: 'its own action', command: 'put', given: [acme('ssm:PutParameter')], want: 'taken' },
  {
    name: 'its own action elsewhere',
    command: 'put',
    given: [allow('ssm:PutParameter', '/davit/beta/*')],
    want: 'denied',
  },
  { name: 'another action', command: 'put', given: [acme('ssm:GetParameter')], want: 'denied' },
  {
    name: 'its own action, but not to write over',
    command: 'put',
    given: [allow('ssm:PutParameter', '*', { Condition: { Bool: { 'ssm:Overwrite': 'false' } } })],
    want: 'denied',
  },
  {
    name: 'the right to put alone',
    command: 'put with tags',
    given: [acme('ssm:PutParameter')],
    want: 'denied',
  },
  {
    name: 'the right to put and to tag',
    command: 'put with tags',
    given: [allow(['ssm:PutParameter', 'ssm:AddTagsToResource'], '/davit/acme/*')],
    want: 'taken',
  },
  {
    name: 'the right to put other tags',
    command: 'put with tags',
    given: [allow('ssm:*', '*', { Condition: { StringEquals: { 'aws:RequestTag/a': 'c' } } })],
    want: 'denied',
  },
  { name: 'its own action', command: 'get', given: [acme('ssm:GetParameter')], want: 'taken' },
  { name: 'the action for several', command: 'get', given: [acme('ssm:GetParameters')], want: 'denied' },
  {
    name: 'its own action, and the key of the account',
    command: 'get decrypted',
    given: [acme('ssm:GetParameter')],
    want: 'taken',
  },
  { name: 'one of two names', command: 'get several', given: [acme('ssm:GetParameters')], want: 'denied' },
  {
    name: 'both names',
    command: 'get several',
    given: [allow('ssm:GetParameters', '/davit/*')],
    want: 'taken',
  },
  {
    name: 'what is below the path',
    command: 'get by path',
    given: [acme('ssm:GetParametersByPath')],
    want: 'denied',
  },
  {
    name: 'the path',
    command: 'get by path',
    given: [allow('ssm:GetParametersByPath', '/davit/acme')],
    want: 'taken',
  },
  {
    name: 'the path above, with a deny of what is below it',
    command: 'get by a path above',
    given: [allow('ssm:GetParametersByPath', '/davit'), { ...acme('ssm:*'), Effect: 'Deny' }],
    want: 'taken',
  },
  {
    name: 'only what is not recursive',
    command: 'get by a path above',
    given: [allow('ssm:*', '*', { Condition: { Bool: { 'ssm:Recursive': 'false' } } })],
    want: 'denied',
  },
  { name: 'another read', command: 'history', given: [acme('ssm:GetParameter')], want: 'denied' },
  { name: 'its own action', command: 'history', given: [acme('ssm:GetParameterHistory')], want: 'taken' },
  {
    name: 'all parameters, which is not all',
    command: 'describe',
    given: [allow('ssm:DescribeParameters', '/*')],
    want: 'denied',
  },
  { name: 'everything', command: 'describe', given: [allow('ssm:DescribeParameters', '*')], want: 'taken' },
  {
    name: 'those with a tag',
    command: 'delete',
    given: [
      allow('ssm:DeleteParameter', '*', {
        Condition: { StringEquals: { 'ssm:resourceTag/owner': 'davit' } },
      }),
    ],
    want: 'taken',
  },
  {
    name: 'those with another tag',
    command: 'delete',
    given: [
      allow('ssm:DeleteParameter', '*', { Condition: { StringEquals: { 'aws:ResourceTag/owner': 'you' } } }),
    ],
    want: 'denied',
  },
  {
    name: 'the action for one',
    command: 'delete several',
    given: [acme('ssm:DeleteParameter')],
    want: 'denied',
  },
  { name: 'its own action', command: 'tag', given: [acme('ssm:AddTagsToResource')], want: 'taken' },
  { name: 'the right to tag', command: 'untag', given: [acme('ssm:AddTagsToResource')], want: 'denied' },
  {
    name: 'the right to take other tags',
    command: 'untag',
    given: [allow('ssm:*', '*', { Condition: { 'ForAllValues:StringEquals': { 'aws:TagKeys': ['a'] } } })],
    want: 'denied',
  },
  { name: 'its own action', command: 'list tags', given: [acme('ssm:ListTagsForResource')], want: 'taken' },
]

async function outcome(command: Command): Promise<string> {
  return ssm.send(COMMANDS[command]() as GetParameterCommand).then(
    () => 'taken',
    (error: Error) => (error.name === 'AccessDeniedException' ? 'denied' : error.name),
  )
}

function onlyAllow(...Statement: Record<string, unknown>[]): void {
  const { account, role } = bed.organization
  account.changeRole(role, { policies: { only: { Version: '2012-10-17', Statement } } })
}

describe('a role', () => {
  for (const { name, command, given, want } of ROWS)
    it(`with ${name}: ${command} is ${want}`, async () => {
      onlyAllow(...given)
      expect(await outcome(command)).toBe(want)
    })
})

describe('the key of a secret', () => {
  const keyPolicy = (Statement: Record<string, unknown>): PolicyDocument => ({
    Version: '2012-10-17',
    Statement,
  })
  const putWith = (KeyId: string) =>
    ssm
      .send(
        new PutParameterCommand({
          Name: '/davit/acme/rc_k',
          Value: 'v',
          Type: 'SecureString',
          KeyId,
          Overwrite: true,
        }),
      )
      .then(
        () => 'taken',
        (error: Error) => (error.name === 'AccessDeniedException' ? 'denied' : error.name),
      )

  it('needs a policy of the role where it leaves that to the account', async () => {
    const { arn } = bed.organization.account.keys(REGION).add()
    onlyAllow(acme('ssm:*'))
    expect(await putWith(arn)).toBe('denied')
    onlyAllow(acme('ssm:*'), { ...KMS, Action: 'kms:Encrypt', Resource: arn })
    expect(await putWith(arn)).toBe('taken')
    const get = new GetParameterCommand({ Name: '/davit/acme/rc_k', WithDecryption: true })
    await expect(ssm.send(get)).rejects.toMatchObject({ message: expect.stringContaining('kms:Decrypt') })
  })

  it('may be held to SSM and to one parameter', async () => {
    const { arn } = bed.organization.account.keys(REGION).add()
    const through = (parameter: string) => ({
      ...KMS,
      Condition: {
        StringEquals: {
          'kms:ViaService': `ssm.${REGION}.amazonaws.com`,
          'kms:EncryptionContext:PARAMETER_ARN': `arn:aws:ssm:${REGION}:222222222222:parameter${parameter}`,
        },
      },
    })
    onlyAllow(acme('ssm:*'), through('/davit/acme/rc_other'))
    expect(await putWith(arn)).toBe('denied')
    onlyAllow(acme('ssm:*'), through('/davit/acme/rc_k'))
    expect(await putWith(arn)).toBe('taken')
  })

  it('is enough where it names the role, and final where it denies', async () => {
    const keys = bed.organization.account.keys(REGION)
    const Principal = { AWS: bed.organization.role.arn }
    const naming = keys.add({
      policy: keyPolicy({ Effect: 'Allow', Principal, Action: 'kms:*', Resource: '*' }),
    })
    const denying = keys.add({
      policy: keyPolicy({ Effect: 'Deny', Principal, Action: 'kms:*', Resource: '*' }),
    })
    onlyAllow(acme('ssm:*'))
    expect(await putWith(naming.arn)).toBe('taken')
    onlyAllow(...ALLOW_ALL.Statement)
    expect(await putWith(denying.arn)).toBe('denied')
  })

  it('is asked of the session policy too', async () => {
    const Policy = JSON.stringify({ Version: '2012-10-17', Statement: [acme('ssm:*')] })
    ssm = bed.ssm(await bed.assume({ Policy }))
    expect(await putWith('alias/aws/ssm')).toBe('denied')
  })

  it('that is advanced makes data keys', async () => {
    onlyAllow(acme('ssm:*'), { ...KMS, Action: 'kms:Encrypt' })
    const { arn: KeyId } = bed.organization.account.keys(REGION).add()
    const put = { Name: '/davit/acme/rc_a', Value: 'v', Type: 'SecureString' as const, KeyId }
    await ssm.send(new PutParameterCommand({ ...put, Tier: 'Standard' }))
    const advanced = new PutParameterCommand({ ...put, Tier: 'Advanced', Overwrite: true })
    await expect(ssm.send(advanced)).rejects.toMatchObject({
      message: expect.stringContaining('kms:GenerateDataKey'),
    })
  })
})
