/** SecretsSettings: the cloud account in which an organization keeps its secrets (interface §2.6). */
import { z } from 'zod'
import {
  AWS_REGION,
  KMS_KEY,
  MAX_KMS_KEY,
  MAX_REGION,
  MAX_REPOSITORY_PREFIX,
  MAX_ROLE_ARN,
  PARTITION_OF_REGION_CEL,
  partitionOfRegion,
  REPOSITORY_PREFIX,
  ROLE_ARN,
} from './aws-names.ts'
import {
  conditions,
  GROUP,
  instant,
  type KindDefinition,
  objectOf,
  observedGeneration,
  resourceType,
  text,
} from './meta.ts'

/** An organization has one object, with this name. */
export const SECRETS_SETTINGS_NAME = 'default'
/** Until everything that Davit wrote into the account is removed, or recorded as a failed deletion. */
export const ACCOUNT_FINALIZER = `${GROUP}/account`

const region = {
  max: MAX_REGION,
  describe: 'region is the AWS region of the parameter store.',
}
const roleArn = {
  max: MAX_ROLE_ARN,
  describe:
    'roleArn is the IAM role that Davit assumes in the AWS account. Leave it unset until you create the role.',
}
const kmsKeyId = {
  max: MAX_KMS_KEY,
  describe:
    "kmsKeyId is the KMS key that encrypts secrets: a key ID, an alias, or the ARN of either. If unset, the account's default key for parameters (alias/aws/ssm) is used.",
}

const specShape = z.object({
  provider: z.enum(['aws']).default('aws').meta({
    description:
      'provider is the cloud provider whose parameter store keeps the secrets. The default is aws.',
  }),
  region: text({
    ...region,
    min: 1,
    pattern: AWS_REGION,
    patternHidden: true,
    allowed: 'an AWS region such as eu-west-1',
  }),
  roleArn: text({
    ...roleArn,
    min: 1,
    pattern: ROLE_ARN,
    patternHidden: true,
    allowed: 'the ARN of an IAM role such as arn:aws:iam::123456789012:role/davit-secrets',
  }).optional(),
  kmsKeyId: text({
    ...kmsKeyId,
    min: 1,
    pattern: KMS_KEY,
    patternHidden: true,
    allowed:
      'a KMS key: its ID, an alias such as alias/davit, or the ARN of either, such as arn:aws:kms:eu-west-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab',
  }).optional(),
  repositoryPrefix: text({
    max: MAX_REPOSITORY_PREFIX,
    describe:
      'repositoryPrefix is the start of the names of the ECR repositories that boxes may pull from, such as boxes/. It restricts readerPolicy in the status. If unset, that policy allows every repository of the account.',
    min: 1,
    pattern: REPOSITORY_PREFIX,
    patternHidden: true,
    allowed: 'the start of the name of an ECR repository, such as boxes/',
  }).optional(),
})
type Spec = z.infer<typeof specShape>

/** Fields that must fit together, in the schema and in CEL. */
const RULES = [
  {
    holds: ({ region, roleArn }: Spec) =>
      roleArn === undefined || roleArn.startsWith(`arn:${partitionOfRegion(region)}:`),
    rule: `!has(self.roleArn) || self.roleArn.startsWith('arn:' + ${PARTITION_OF_REGION_CEL} + ':')`,
    message: 'region must be in the same AWS partition (such as aws, aws-cn or aws-us-gov) as roleArn',
  },
  {
    holds: ({ region, kmsKeyId }: Spec) =>
      !kmsKeyId?.startsWith('arn:') || kmsKeyId.startsWith(`arn:${partitionOfRegion(region)}:kms:${region}:`),
    rule: `!has(self.kmsKeyId) || !self.kmsKeyId.startsWith('arn:') || self.kmsKeyId.startsWith('arn:' + ${PARTITION_OF_REGION_CEL} + ':kms:' + self.region + ':')`,
    message: 'kmsKeyId must be a key in the same region',
  },
]

export const secretsSettingsSpec = RULES.reduce(
  (spec, { holds, message }) => spec.refine(holds, message),
  specShape,
).meta({
  description: 'spec is the desired state of the settings.',
  'x-kubernetes-validations': RULES.map(({ rule, message }) => ({ rule, message })),
})

/** IAM allows 6,144 characters. */
const policy = (describe: string) => text({ max: 8192, describe })

export const connectedAccount = z
  .object({
    roleArn: text(roleArn),
    region: text(region),
    kmsKeyId: text(kmsKeyId).optional(),
  })
  .meta({
    description:
      'connected is the AWS account configuration that the conditions apply to and that parameters were stored with.',
  })
export type ConnectedAccount = z.infer<typeof connectedAccount>

export const secretsSettingsStatus = z
  .object({
    externalId: text({
      max: 64,
      describe:
        'externalId is created by Davit and stays the same for the lifetime of the organization. The trust policy of the role must require it.',
    }).optional(),
    account: text({ max: 12, describe: 'account is the ID of the AWS account of the role.' }).optional(),
    parameterPrefix: text({
      max: 1011,
      describe: 'parameterPrefix is the path that contains every parameter of this organization.',
    }).optional(),
    connected: connectedAccount.optional(),
    trustPolicy: policy('trustPolicy is the trust policy to attach to the role.').optional(),
    writerPolicy: policy(
      'writerPolicy is the permissions policy to attach to the role. It allows writing but not reading.',
    ).optional(),
    readerPolicy: policy(
      'readerPolicy is the permissions policy to attach to the role of the boxes. It allows reading but not writing.',
    ).optional(),
    checkedAt: instant('checkedAt is when Davit last checked the AWS account.').optional(),
    observedGeneration,
    conditions: conditions.optional(),
  })
  .meta({ description: 'status is the observed state of the settings. Only Davit writes it.' })

export const secretsSettings = objectOf(secretsSettingsSpec, secretsSettingsStatus)
export type SecretsSettingsSpec = z.infer<typeof secretsSettingsSpec>
export type SecretsSettingsStatus = z.infer<typeof secretsSettingsStatus>
export type SecretsSettings = z.infer<typeof secretsSettings>

/**
 * Condition types of the settings. Ready: secrets can be saved. Reachable: the role can be assumed and writes. WriteOnly: it cannot
 * read what it writes. ExternalIdEnforced: it rejects other external ids.
 */
export const SETTINGS_CONDITIONS = [
  'Ready',
  'Reconciling',
  'Stalled',
  'Reachable',
  'WriteOnly',
  'ExternalIdEnforced',
] as const

/** Reasons that last until someone acts; of Stalled and Ready. */
export const SETTINGS_STALLS = [
  'NotAnOrganization',
  'RoleRequired',
  'RoleRefused',
  'WrongAccount',
  'WriteRefused',
  'PermissionMissing',
  'KeyUnusable',
  'SpecRefused',
  'OtherExternalIdAccepted',
  'CanRead',
] as const
export type SettingsStall = (typeof SETTINGS_STALLS)[number]

/** Reasons that pass by themselves; of Reconciling, and of conditions that are unknown for that long. */
export const SETTINGS_WAITS = ['Connecting', 'CloudUnavailable'] as const

export const secretsSettingsKind: KindDefinition = {
  kind: 'SecretsSettings',
  plural: 'secretssettings',
  singular: 'secretssettings',
  shortNames: ['sst'],
  scope: 'Namespaced',
  description:
    'SecretsSettings configures the AWS account in which an organization stores the secrets of its registry credentials.',
  spec: secretsSettingsSpec,
  status: secretsSettingsStatus,
  rules: [
    {
      rule: `self.metadata.name == '${SECRETS_SETTINGS_NAME}'`,
      message: `must be ${SECRETS_SETTINGS_NAME}: each organization has one SecretsSettings`,
      fieldPath: '.metadata.name',
    },
  ],
  columns: [
    { name: 'Region', type: 'string', jsonPath: '.spec.region' },
    { name: 'Account', type: 'string', jsonPath: '.status.account' },
    { name: 'Ready', type: 'string', jsonPath: '.status.conditions[?(@.type=="Ready")].status' },
    { name: 'Reason', type: 'string', jsonPath: '.status.conditions[?(@.type=="Ready")].reason' },
    { name: 'Write-only', type: 'string', jsonPath: '.status.conditions[?(@.type=="WriteOnly")].status' },
    { name: 'Role', type: 'string', jsonPath: '.spec.roleArn', priority: 1 },
    { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
  ],
  selectable: [],
}
export const secretsSettingsResource = resourceType(secretsSettingsKind)
