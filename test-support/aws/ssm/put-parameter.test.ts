import { PutParameterCommand, type PutParameterCommandInput } from '@aws-sdk/client-ssm'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type AwsBed, REGION, startAwsBed } from '../../../test/support/aws/bed.ts'
import { MAX_PARAMETERS, type Parameter, type ParameterStore } from '../account.ts'

/** The ARN prefix with its slash counts toward the length of a name. */
const ARN_PREFIX = 'arn:aws:ssm:eu-central-1:222222222222:parameter/'.length
const LONGEST_NAME = 1_011 - ARN_PREFIX
const levels = (count: number) => '/l'.repeat(count)
const tags = (count: number) =>
  Array.from({ length: count }, (_, index) => ({ Key: `k${index}`, Value: 'v' }))
const tag = (Key: string, Value = '') => ({ Tags: [{ Key, Value }] })

let bed: AwsBed
let store: ParameterStore
let put: (
  given: Partial<PutParameterCommandInput>,
) => Promise<{ Version?: number | undefined; Tier?: string | undefined }>
let made = 0

beforeAll(async () => {
  bed = await startAwsBed()
  store = bed.organization.account.parameters(REGION)
  const ssm = bed.ssm(await bed.assume())
  put = (given) => {
    made += 1
    const whole = { Name: `/made/${made}`, Value: 'v', Type: 'SecureString' as const, ...given }
    return ssm.send(new PutParameterCommand(whole))
  }
})
afterAll(() => bed.stop())

const outcome = (given: Partial<PutParameterCommandInput>) =>
  put(given).then(
    ({ Tier }) => `taken as ${Tier}`,
    (error: Error) => error.name,
  )

type Row = { name: string; given: Partial<PutParameterCommandInput>; want: string }
const STANDARD = 'taken as Standard'
const ADVANCED = 'taken as Advanced'
const INVALID = 'ValidationException'

const ROWS: readonly Row[] = [
  { name: '4,096 bytes', given: { Value: 'x'.repeat(4_096) }, want: STANDARD },
  { name: '4,097 bytes', given: { Value: 'x'.repeat(4_097) }, want: INVALID },
  { name: '4,096 bytes in fewer characters', given: { Value: 'ä'.repeat(2_048) }, want: STANDARD },
  { name: '4,098 bytes in fewer characters', given: { Value: 'ä'.repeat(2_049) }, want: INVALID },
  { name: '8,192 bytes, advanced', given: { Value: 'x'.repeat(8_192), Tier: 'Advanced' }, want: ADVANCED },
  { name: '8,193 bytes, advanced', given: { Value: 'x'.repeat(8_193), Tier: 'Advanced' }, want: INVALID },
  {
    name: '4,096 bytes, tiering by itself',
    given: { Value: 'x'.repeat(4_096), Tier: 'Intelligent-Tiering' },
    want: STANDARD,
  },
  {
    name: '4,097 bytes, tiering by itself',
    given: { Value: 'x'.repeat(4_097), Tier: 'Intelligent-Tiering' },
    want: ADVANCED,
  },
  { name: 'one character', given: { Value: 'x' }, want: STANDARD },
  { name: 'nothing', given: { Value: '' }, want: INVALID },
  { name: 'opened and closed double braces', given: { Value: 'a{{b}}c' }, want: INVALID },
  { name: 'double braces over lines', given: { Value: '{{\n}}' }, want: INVALID },
  { name: 'opened double braces alone', given: { Value: 'a{{b' }, want: STANDARD },
  { name: 'single braces', given: { Value: '{"a":{"b":1} }' }, want: STANDARD },
  {
    name: 'all of Unicode, quotes and control characters',
    given: { Value: '"\\ä😀\u0001\t\n%00 ' },
    want: STANDARD,
  },
  { name: 'the longest name', given: { Name: `/${'n'.repeat(LONGEST_NAME - 1)}` }, want: STANDARD },
  { name: 'a longer name', given: { Name: `/${'n'.repeat(LONGEST_NAME)}` }, want: INVALID },
  { name: 'the longest plain name', given: { Name: 'n'.repeat(LONGEST_NAME) }, want: STANDARD },
  { name: 'a longer plain name', given: { Name: 'n'.repeat(LONGEST_NAME + 1) }, want: INVALID },
  { name: '15 levels', given: { Name: levels(15) }, want: STANDARD },
  { name: '16 levels', given: { Name: levels(16) }, want: 'HierarchyLevelLimitExceededException' },
  { name: 'a name of all characters', given: { Name: '/aZ09_.-/b' }, want: STANDARD },
  { name: 'a name with spaces around it', given: { Name: ' /spaces/around ' }, want: STANDARD },
  { name: 'a name with a space in it', given: { Name: '/a b' }, want: INVALID },
  { name: 'a name with a colon', given: { Name: '/a:b' }, want: INVALID },
  { name: 'a name with an empty level', given: { Name: '/a//b' }, want: INVALID },
  { name: 'a name that ends with a slash', given: { Name: '/a/' }, want: INVALID },
  { name: 'a path without its slash', given: { Name: 'a/b' }, want: INVALID },
  { name: 'a name of AWS', given: { Name: '/aws/x' }, want: 'AccessDeniedException' },
  { name: 'a name like one of AWS', given: { Name: 'AWSome' }, want: INVALID },
  { name: 'a path like one of SSM', given: { Name: '/ssm-x/y' }, want: INVALID },
  { name: 'a name with "aws" further on', given: { Name: '/davit/aws' }, want: STANDARD },
  { name: 'a description of 1,024', given: { Description: 'd'.repeat(1_024) }, want: STANDARD },
  { name: 'a description of 1,025', given: { Description: 'd'.repeat(1_025) }, want: INVALID },
  { name: '50 tags', given: { Tags: tags(50) }, want: STANDARD },
  { name: '51 tags', given: { Tags: tags(51) }, want: 'TooManyTagsError' },
  { name: 'a tag of 128 and 256', given: tag('k'.repeat(128), 'v'.repeat(256)), want: STANDARD },
  { name: 'a tag of 129', given: tag('k'.repeat(129)), want: INVALID },
  { name: 'a tag with a value of 257', given: tag('k', 'v'.repeat(257)), want: INVALID },
  { name: 'a tag of AWS', given: tag('aws:x'), want: INVALID },
  { name: 'a tag with an exclamation mark', given: tag('k!'), want: INVALID },
  { name: 'no type', given: { Type: undefined }, want: INVALID },
  { name: 'a type that there is not', given: { Type: 'Secret' as 'String' }, want: INVALID },
  { name: 'a key that is not there', given: { KeyId: 'alias/none' }, want: 'InvalidKeyId' },
  { name: 'a key for plain text', given: { Type: 'String', KeyId: 'alias/aws/ssm' }, want: INVALID },
]

describe('PutParameter', () => {
  for (const { name, given, want } of ROWS)
    it(`with ${name}: ${want}`, async () => {
      expect(await outcome(given)).toBe(want)
    })

  it('never goes back from the advanced tier', async () => {
    await put({ Name: '/tier', Tier: 'Advanced' })
    expect(await outcome({ Name: '/tier', Tier: 'Standard', Overwrite: true })).toBe(INVALID)
    expect(await outcome({ Name: '/tier', Overwrite: true })).toBe(ADVANCED)
  })

  it('takes the tier of the account where none is said', async () => {
    store.defaultTier = 'Advanced'
    expect(await outcome({})).toBe(ADVANCED)
    store.defaultTier = 'Standard'
  })

  it('refuses tags, a new type and a second time without saying so', async () => {
    await put({ Name: '/again', Type: 'String' })
    expect(await outcome({ Name: '/again', Type: 'String' })).toBe('ParameterAlreadyExists')
    expect(await outcome({ Name: '/again', Overwrite: true })).toBe('HierarchyTypeMismatchException')
    expect(await outcome({ Name: '/again', Type: 'String', Overwrite: true, Tags: tags(1) })).toBe(INVALID)
  })

  it('refuses keys that are disabled, to be deleted or not symmetric', async () => {
    const keys = bed.organization.account.keys(REGION)
    const key = keys.add({ alias: 'alias/mine' })
    for (const KeyId of ['alias/mine', key.id, key.arn]) expect(await outcome({ KeyId })).toBe(STANDARD)
    for (const state of ['Disabled', 'PendingDeletion'] as const) {
      key.state = state
      expect(await outcome({ KeyId: 'alias/mine' })).toBe('InvalidKeyId')
    }
    expect(await outcome({ KeyId: keys.add({ isSymmetric: false }).arn })).toBe('InvalidKeyId')
  })

  it('says the limit of an account', async () => {
    const [one] = store.list()
    const version = one?.versions.at(-1)
    if (!one || !version) throw new Error('nothing is stored')
    const standard: Parameter = { ...one, versions: [{ ...version, tier: 'Standard' }] }
    for (let index = 0; store.count('Standard') < MAX_PARAMETERS.Standard - 1; index += 1)
      store.put({ ...standard, name: `/filling/${index}` }, 0)
    expect(await outcome({ Name: '/last' })).toBe(STANDARD)
    expect(await outcome({ Name: '/one-too-many' })).toBe('ParameterLimitExceeded')
    expect(await outcome({ Name: '/last', Overwrite: true })).toBe(STANDARD)
    expect(await outcome({ Name: '/more', Tier: 'Advanced' })).toBe(ADVANCED)
  })

  it('has been asked nothing that the double does not know', () => {
    expect(bed.aws.defects).toEqual([])
  })
})
