/** The few fields of a WebhookEvent that the process keeps in mind, without its data. */
import { z } from 'zod'
import { eventState } from './webhook-event.ts'

export const eventOutline = z.object({
  metadata: z.object({
    name: z.string(),
    namespace: z.string(),
    uid: z.string(),
    resourceVersion: z.string(),
    creationTimestamp: z.string(),
    deletionTimestamp: z.string().optional(),
    generation: z.number().optional(),
  }),
  spec: z.object({ type: z.string(), ttlSecondsAfterFinished: z.number().optional() }),
  status: z
    .object({
      state: eventState.optional(),
      eventId: z.string().optional(),
      finishedAt: z.string().optional(),
    })
    .optional(),
})
export type EventOutline = z.infer<typeof eventOutline>
