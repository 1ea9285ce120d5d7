/** SecretsSettings: the cloud account in which an organization keeps its secrets (interface §2.6). */
import { z } from 'zod'
import {
  AWS_REGION,
  KMS_KEY,
  MAX_KMS_KEY,
  MAX_REGION,
  MAX_ROLE_ARN,
  PARTITION_OF_REGION_CEL,
  partitionOfRegion,
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
  describe: 'Region of the parameter store.',
}
const roleArn = {
  max: MAX_ROLE_ARN,
  describe: 'Role that Davit assumes in the account. Leave it out until the role is made.',
}
const kmsKeyId = {
  max: MAX_KMS_KEY,
  describe:
    "KMS key that secrets are encrypted with: an id, an alias, or the ARN of either. Without it the account's own key for parameters (alias/aws/ssm).",
}

const specShape = z.object({
  provider: z
    .enum(['aws'])
    .default('aws')
    .meta({ description: 'The cloud provider; its parameter store keeps the secrets.' }),
  region: text({
    ...region,
    min: 1,
    pattern: AWS_REGION,
    patternHidden: true,
    allowed: 'a region of AWS such as eu-west-1',
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
      'a KMS key: its id, an alias such as alias/davit, or the ARN of either, such as arn:aws:kms:eu-west-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab',
  }).optional(),
})
type Spec = z.infer<typeof specShape>

/** Fields that must fit together, in the schema and in CEL. */
const RULES = [
  {
    holds: ({ region, roleArn }: Spec) =>
      roleArn === undefined || roleArn.startsWith(`arn:${partitionOfRegion(region)}:`),
    rule: `!has(self.roleArn) || self.roleArn.startsWith('arn:' + ${PARTITION_OF_REGION_CEL} + ':')`,
    message: 'region must be one of the partition that roleArn names (aws, aws-cn, aws-us-gov and so on)',
  },
  {
    holds: ({ region, kmsKeyId }: Spec) =>
      !kmsKeyId?.startsWith('arn:') || kmsKeyId.startsWith(`arn:${partitionOfRegion(region)}:kms:${region}:`),
    rule: `!has(self.kmsKeyId) || !self.kmsKeyId.startsWith('arn:') || self.kmsKeyId.startsWith('arn:' + ${PARTITION_OF_REGION_CEL} + ':kms:' + self.region + ':')`,
    message: 'kmsKeyId must be a key of the same region',
  },
]

export const secretsSettingsSpec = RULES.reduce(
  (spec, { holds, message }) => spec.refine(holds, message),
  specShape,
).meta({
  description: 'What the owner wants.',
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
  .meta({ description: 'What the conditions speak of, and where parameters were put.' })
export type ConnectedAccount = z.infer<typeof connectedAccount>

export const secretsSettingsStatus = z
  .object({
    externalId: text({
      max: 64,
      describe:
        'Made by Davit, the same for as long as the organization exists. The trust policy of the role must ask for it.',
    }).optional(),
    account: text({ max: 12, describe: 'AWS account of the role.' }).optional(),
    parameterPrefix: text({
      max: 1011,
      describe: 'Every parameter of this organization is under it.',
    }).optional(),
    connected: connectedAccount.optional(),
    trustPolicy: policy('Trust policy of the role, to paste.').optional(),
    writerPolicy: policy('Permissions of the role, to paste: it may write and not read.').optional(),
    readerPolicy: policy(
      'Permissions of the role of the boxes, to paste: it may read and not write.',
    ).optional(),
    checkedAt: instant('When the account was tried last.').optional(),
    observedGeneration,
    conditions: conditions.optional(),
  })
  .meta({ description: 'What Davit observed; written by Davit only.' })

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
  'RightMissing',
  'KeyRefused',
  'SpecRefused',
  'OtherIdAccepted',
  'CanRead',
] as const
export type SettingsStall = (typeof SETTINGS_STALLS)[number]

/** Reasons that pass by themselves; of Reconciling, and of conditions that are unknown for that long. */
export const SETTINGS_WAITS = ['Connecting', 'CloudUnavailable'] as const

export const secretsSettingsKind: KindDefinition = {
  kind: 'SecretsSettings',
  plural: 'secretssettings',
  singular: 'secretssetting',
  shortNames: [],
  scope: 'Namespaced',
  description: 'The cloud account in which an organization keeps the secrets of its registry credentials.',
  spec: secretsSettingsSpec,
  status: secretsSettingsStatus,
  rules: [
    {
      rule: `self.metadata.name == '${SECRETS_SETTINGS_NAME}'`,
      message: `must be ${SECRETS_SETTINGS_NAME}: an organization has one SecretsSettings`,
      fieldPath: '.metadata.name',
    },
  ],
  columns: [
    { name: 'Region', type: 'string', jsonPath: '.spec.region' },
    { name: 'Account', type: 'string', jsonPath: '.status.account' },
    { name: 'Ready', type: 'string', jsonPath: '.status.conditions[?(@.type=="Ready")].status' },
    { name: 'Write-only', type: 'string', jsonPath: '.status.conditions[?(@.type=="WriteOnly")].status' },
    {
      name: 'Reason',
      type: 'string',
      jsonPath: '.status.conditions[?(@.type=="Ready")].reason',
      priority: 1,
    },
    { name: 'Role', type: 'string', jsonPath: '.spec.roleArn', priority: 1 },
    { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
  ],
  selectable: [],
}
export const secretsSettingsResource = resourceType(secretsSettingsKind)
