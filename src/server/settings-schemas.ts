/** Secrets settings as REST shows and takes them (interface §2.6). */
import { z } from 'zod'
import { secretsSettingsSpec } from '../apis/secrets-settings.ts'
import { time } from './schemas.ts'

const spec = secretsSettingsSpec.shape
const { region, roleArn, kmsKeyId } = spec

export const settingsDraftSchema = z
  .strictObject({
    region: region.meta({ example: 'eu-west-1' }),
    roleArn: roleArn,
    kmsKeyId: kmsKeyId,
  })
  .superRefine((draft, context) => {
    // What must fit together.
    for (const { path, message } of secretsSettingsSpec.safeParse(draft).error?.issues ?? [])
      context.addIssue({ code: 'custom', path, message })
  })

const condition = z.object({
  type: z.string().meta({ description: 'Such as Ready, Reachable, WriteOnly, ExternalIdEnforced.' }),
  status: z.enum(['True', 'False', 'Unknown']),
  reason: z.string().meta({ description: 'One word for programs.' }),
  message: z.string().meta({ description: 'Why, and what to do, for people.' }),
  lastTransitionTime: time('When the status last changed.'),
})

const policy = (what: string) =>
  z
    .string()
    .optional()
    .meta({ description: `${what}, as JSON to paste.` })

export const settings = z
  .object({
    region: z.string().optional().meta({ description: 'Absent while there are no settings.' }),
    roleArn: z.string().optional(),
    kmsKeyId: z.string().optional(),
    externalId: z.string().meta({
      description:
        'Made by Davit, the same for as long as the organization exists. The trust policy of the role must ask for it.',
    }),
    account: z.string().optional().meta({ description: 'AWS account of the role.' }),
    parameterPrefix: z.string().meta({ description: 'Every parameter of the organization is under it.' }),
    trustPolicy: policy('Trust policy of the role'),
    writerPolicy: policy('Permissions of the role, which may write and not read'),
    readerPolicy: policy('Permissions of the role of the boxes, which may read and not write'),
    checkedAt: time('When the account was tried last.').optional(),
    conditions: z.array(condition).meta({ description: 'Of these settings, not of those before.' }),
  })
  .meta({
    id: 'SecretsSettings',
    description: 'The cloud account in which an organization keeps its secrets.',
  })
