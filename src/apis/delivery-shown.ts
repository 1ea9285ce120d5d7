/** The few fields of a WebhookDelivery that a line of the log shows: neither its payload nor its attempts. */
import { z } from 'zod'
import { deliveryState } from './webhook-delivery.ts'

export const deliveryListItem = z.object({
  metadata: z.object({ name: z.string(), namespace: z.string() }),
  spec: z.object({
    endpointUid: z.string(),
    deliveryId: z.string(),
    eventType: z.string(),
    redeliveryOf: z.string().optional(),
  }),
  status: z
    .object({
      state: deliveryState.optional(),
      attemptCount: z.int().min(0).max(8).optional(),
      nextAttemptAt: z.string().optional(),
      completedAt: z.string().optional(),
    })
    .optional(),
})
