import { describe, expect, test } from 'vitest'
import { isOtherKey, kmsResource, parseKmsKey } from './names.ts'

const ID = '1234abcd-12ab-34cd-56ef-1234567890ab'
const MRK = `mrk-${'0123456789abcdef'.repeat(2)}`
const ARN = `arn:aws:kms:eu-west-1:210987654321:key/${ID}`
const PLACE = { partition: 'aws', region: 'eu-west-1', account: '123456789012' }

describe('a key', () => {
  test.each([
    [ID, { kind: 'key', id: ID }],
    [MRK, { kind: 'key', id: MRK }],
    ['alias/davit', { kind: 'alias', id: 'alias/davit' }],
    [ARN, { kind: 'key', id: ID, home: { region: 'eu-west-1', account: '210987654321' } }],
    [
      'arn:aws-us-gov:kms:us-gov-west-1:210987654321:alias/a/b_c',
      { kind: 'alias', id: 'alias/a/b_c', home: { region: 'us-gov-west-1', account: '210987654321' } },
    ],
  ])('%s is known', (text, want) => {
    expect(parseKmsKey(text)).toEqual(want)
  })

  test.each([
    '',
    'davit',
    'alias/',
    ID.toUpperCase(),
    `${ID}0`,
    'mrk-1',
    `arn:aws:kms::1:key/${ID}`,
    `key/${ID}`,
  ])('%s is none', (text) => {
    expect(parseKmsKey(text)).toBeUndefined()
  })
})

test.each([
  [undefined, 'arn:aws:kms:eu-west-1:123456789012:key/*'],
  ['alias/davit', 'arn:aws:kms:eu-west-1:123456789012:key/*'],
  ['arn:aws:kms:eu-west-1:210987654321:alias/davit', 'arn:aws:kms:eu-west-1:210987654321:key/*'],
  [ID, `arn:aws:kms:eu-west-1:123456789012:key/${ID}`],
  [ARN, ARN],
])('the resource of %s is %s', (key, want) => {
  expect(kmsResource(key, PLACE)).toBe(want)
})

test.each([
  { asked: undefined, listed: 'alias/aws/ssm', want: false },
  { asked: undefined, listed: undefined, want: false },
  { asked: ID, listed: ARN, want: false },
  { asked: ARN, listed: ID, want: false },
  { asked: ID, listed: MRK, want: true },
  { asked: 'alias/davit', listed: 'arn:aws:kms:eu-west-1:210987654321:alias/davit', want: false },
  { asked: 'alias/davit', listed: 'alias/other', want: true },
  { asked: 'alias/davit', listed: undefined, want: true },
  { asked: ID, listed: 'alias/davit', want: false },
])('$listed where $asked was asked for is another key: $want', ({ asked, listed, want }) => {
  expect(isOtherKey(asked, listed)).toBe(want)
})
