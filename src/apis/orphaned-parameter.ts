import { z } from 'zod'

/** A line of the list of orphaned parameters: where it is, how Davit would get there, and why it could not be removed. */
export const failedDeletionRecord = z.object({
  name: z.string(),
  account: z.string(),
  region: z.string(),
  roleArn: z.string(),
  reason: z.string(),
  organization: z.string(),
  organizationUid: z.string(),
  recordedAt: z.string(),
})
export type FailedDeletionRecord = z.infer<typeof failedDeletionRecord>
