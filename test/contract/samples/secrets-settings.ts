import { secretsSettingsKind } from '../../../src/apis/secrets-settings.ts'
import { type Good, samplesOf } from './sample.ts'

const KEY = '1234abcd-12ab-34cd-56ef-1234567890ab'
const MRK = `mrk-${'0123456789abcdef'.repeat(2)}`

export const goodSettings = {
  name: 'default',
  spec: { region: 'eu-west-1', roleArn: 'arn:aws:iam::123456789012:role/davit-secrets' },
} satisfies Good

const REGION_ALLOWED = ['spec.region', 'must be an AWS region such as eu-west-1']
const ROLE_ALLOWED = ['spec.roleArn', 'must be the ARN of an IAM role']
const PREFIX_ALLOWED = ['spec.repositoryPrefix', 'must be the start of the name of an ECR repository']
const KEY_ALLOWED = ['spec.kmsKeyId', 'must be a KMS key']
const ONE_PARTITION = ['spec', 'region must be in the same AWS partition']
const ONE_REGION = ['spec', 'kmsKeyId must be a key in the same region']

const partitions: [region: string, partition: string][] = [
  ['us-east-1', 'aws'],
  ['ap-southeast-7', 'aws'],
  ['cn-northwest-1', 'aws-cn'],
  ['us-gov-west-1', 'aws-us-gov'],
  ['us-iso-east-1', 'aws-iso'],
  ['us-isob-east-1', 'aws-iso-b'],
  ['eu-isoe-west-1', 'aws-iso-e'],
  ['us-isof-south-1', 'aws-iso-f'],
  ['eusc-de-east-1', 'aws-eusc'],
]
const inPartition = (region: string, partition: string) => ({
  region,
  roleArn: `arn:${partition}:iam::123456789012:role/davit`,
  kmsKeyId: `arn:${partition}:kms:${region}:210987654321:key/${KEY}`,
})

const keys = [
  KEY,
  MRK,
  'alias/davit',
  'alias/a/b-c_d',
  'alias/aws/ssm',
  'arn:aws:kms:eu-west-1:210987654321:alias/davit',
]
const noKeys = [
  'davit',
  'alias/',
  `key/${KEY}`,
  KEY.toUpperCase(),
  `${KEY}0`,
  'mrk-1',
  `arn:aws:kms::1:key/${KEY}`,
  '*',
]
const prefixes = ['boxes/', 'acme', 'teams/a.b_c-d/', '0', 'a'.repeat(256)]
const noPrefixes = ['*', 'boxes/*', 'box?s', 'Boxes/', '/boxes', 'boxes/$name', 'boxes/\n', 'bo xes']
const noRoles = [
  'davit',
  'arn:aws:iam::123456789012:user/davit',
  'arn:aws:iam::123456789012:root',
  'arn:aws:sts::123456789012:assumed-role/davit/session',
  'arn:aws:iam::12345678901:role/davit',
  'arn:aws:iam::*:role/davit',
  'arn:aws:iam::123456789012:role/*',
  'arn:aws:iam:eu-west-1:123456789012:role/davit',
  'arn:other:iam::123456789012:role/davit',
  'arn:aws:iam::123456789012:role/da vit',
  'arn:aws:iam::123456789012:role/davit\n',
  `arn:aws:iam::123456789012:role/${'a'.repeat(65)}`,
]
const noRegions = [
  'Frankfurt',
  'EU-WEST-1',
  'eu-west',
  'eu-west-1a',
  'eu_west_1',
  '*',
  'eu-west-1.evil.test',
  'eu-west-1\n',
]

export const settingsSamples = samplesOf(secretsSettingsKind, goodSettings, [
  ['a role in a region', {}],
  ['no role yet', { spec: { roleArn: undefined } }],
  ['the provider', { spec: { provider: 'aws' } }],
  ['a role with a path', { spec: { roleArn: 'arn:aws:iam::123456789012:role/teams/a.b/davit+1' } }],
  ...partitions.map(([region, partition]): [string, object] => [
    `${region} in ${partition}`,
    { spec: inPartition(region, partition) },
  ]),
  ...keys.map((kmsKeyId): [string, object] => [`the key ${kmsKeyId}`, { spec: { kmsKeyId } }]),
  ...noKeys.map((kmsKeyId): [string, object] => [
    `the key ${kmsKeyId}`,
    { spec: { kmsKeyId }, refusal: KEY_ALLOWED },
  ]),
  ...prefixes.map((repositoryPrefix): [string, object] => [
    `repositories that start with ${repositoryPrefix}`,
    { spec: { repositoryPrefix } },
  ]),
  ...noPrefixes.map((repositoryPrefix): [string, object] => [
    `repositories that start with ${repositoryPrefix}`,
    { spec: { repositoryPrefix }, refusal: PREFIX_ALLOWED },
  ]),
  ...noRoles.map((roleArn): [string, object] => [
    `the role ${roleArn}`,
    { spec: { roleArn }, refusal: ROLE_ALLOWED },
  ]),
  ...noRegions.map((region): [string, object] => [
    `the region ${region}`,
    { spec: { region, roleArn: undefined }, refusal: REGION_ALLOWED },
  ]),
  ['no region', { spec: { region: undefined }, refusal: ['spec.region: Required value'] }],
  ['an empty region', { spec: { region: '' }, refusal: ['spec.region', 'at least 1 chars'] }],
  ['an empty role', { spec: { roleArn: '' }, refusal: ['spec.roleArn', 'at least 1 chars'] }],
  ['an empty key', { spec: { kmsKeyId: '' }, refusal: ['spec.kmsKeyId', 'at least 1 chars'] }],
  [
    'an empty prefix',
    { spec: { repositoryPrefix: '' }, refusal: ['spec.repositoryPrefix', 'at least 1 chars'] },
  ],
  [
    'a prefix of 257 characters',
    { spec: { repositoryPrefix: 'a'.repeat(257) }, refusal: ['spec.repositoryPrefix: Too long'] },
  ],
  [
    'a region of 26 characters',
    { spec: { region: `eu-${'a'.repeat(21)}-1` }, refusal: ['spec.region: Too long'] },
  ],
  ['another provider', { spec: { provider: 'gcp' }, refusal: ['spec.provider: Unsupported value', '"aws"'] }],
  ['a region of another partition', { spec: { region: 'cn-north-1' }, refusal: ONE_PARTITION }],
  [
    'a role of another partition',
    { spec: { roleArn: 'arn:aws-us-gov:iam::123456789012:role/davit' }, refusal: ONE_PARTITION },
  ],
  [
    'a partition that begins like the one',
    { spec: inPartition('us-iso-east-1', 'aws-iso-b'), refusal: ONE_PARTITION },
  ],
  [
    'a key of another region',
    { spec: { kmsKeyId: `arn:aws:kms:us-east-1:123456789012:key/${KEY}` }, refusal: ONE_REGION },
  ],
  [
    'an alias of another partition',
    { spec: { kmsKeyId: 'arn:aws-cn:kms:eu-west-1:123456789012:alias/davit' }, refusal: ONE_REGION },
  ],
  [
    'an external id of its own choice',
    { spec: { externalId: 'mine' }, refusal: ['unknown field "spec.externalId"'], serverOnly: true },
  ],
  [
    'a prefix of its own choice',
    {
      spec: { parameterPrefix: '/other' },
      refusal: ['unknown field "spec.parameterPrefix"'],
      serverOnly: true,
    },
  ],
  ['another name', { name: 'other', refusal: ['metadata.name', 'must be default'], serverOnly: true }],
])
