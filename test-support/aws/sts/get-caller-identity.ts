import { z } from 'zod'
import { operation } from '../call.ts'

/** It cannot be denied. */
export const getCallerIdentity = operation('GetCallerIdentity', {
  family: 'sts',
  input: z.strictObject({}),
  run: ({ principal }) => ({
    Arn: principal.arn,
    UserId: principal.userId,
    Account: principal.account.id,
  }),
})
