import { z } from 'zod'

const TAG_TEXT = /^[\p{L}\p{Z}\p{N}_.:/=+\-@]*$/u

const digits = z
  .string()
  .regex(/^\d{1,9}$/)
  .transform(Number)

/** Source: STS API Reference, AssumeRole, "Request Parameters". */
export const assumeRoleInput = z.strictObject({
  RoleArn: z.string().min(20).max(2_048),
  RoleSessionName: z
    .string()
    .min(2)
    .max(64)
    .regex(/^[\w+=,.@-]*$/),
  ExternalId: z
    .string()
    .min(2)
    .max(1_224)
    .regex(/^[\w+=,.@:/-]*$/)
    .optional(),
  Policy: z
    .string()
    .min(1)
    .max(2_048)
    .regex(/^[\t\n\r -\u00FF]+$/)
    .optional(),
  DurationSeconds: digits.pipe(z.number().min(900).max(43_200)).default(3_600),
  Tags: z
    .array(
      z.strictObject({
        Key: z.string().min(1).max(128).regex(TAG_TEXT),
        Value: z.string().max(256).regex(TAG_TEXT),
      }),
    )
    .max(50)
    .default([]),
  TransitiveTagKeys: z.array(z.string()).max(0).default([]),
})

export type AssumeRoleInput = z.output<typeof assumeRoleInput>
