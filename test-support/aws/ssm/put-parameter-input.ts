import { z } from 'zod'
import { tagInput } from './tag-rules.ts'

/** Other members, such as Policies and AllowedPattern, are not emulated. Source: SSM API Reference, PutParameter. */
export const putParameterInput = z.strictObject({
  Name: z.string().trim().min(1).max(2_048),
  Value: z.string(),
  Type: z.enum(['String', 'StringList', 'SecureString']).optional(),
  Description: z.string().max(1_024).optional(),
  KeyId: z
    .string()
    .min(1)
    .max(256)
    .regex(/^([a-zA-Z0-9:/_-]+)$/)
    .optional(),
  Overwrite: z.boolean().default(false),
  Tags: z.array(tagInput).max(1_000).default([]),
  Tier: z.enum(['Standard', 'Advanced', 'Intelligent-Tiering']).optional(),
  DataType: z.literal('text').optional(),
})

export type PutParameterInput = z.output<typeof putParameterInput>
