/** The few fields of a WebhookDelivery that the process keeps in mind: of its payload the length alone, no attempts. */
import { z } from 'zod'
import { deliveryState } from './webhook-delivery.ts'

export const deliveryOutline = z.object({
  metadata: z.object({
    name: z.string(),
    namespace: z.string(),
    uid: z.string(),
    resourceVersion: z.string(),
    creationTimestamp: z.string(),
  }),
  spec: z.object({
    endpoint: z.string(),
    endpointUid: z.string(),
    deliveryId: z.string(),
    position: z.string(),
    writtenAt: z.string(),
    /** Its length; absent where it lies in the log. */
    payload: z
      .string()
      .transform(({ length }) => length)
      .optional(),
    payloadRef: z.object({ segment: z.string() }).optional(),
  }),
  status: z
    .object({
      state: deliveryState.optional(),
      attemptCount: z.number().optional(),
      nextAttemptAt: z.string().optional(),
      completedAt: z.string().optional(),
    })
    .optional(),
})
export type DeliveryOutline = z.infer<typeof deliveryOutline>
