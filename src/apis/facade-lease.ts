/** Lease of a replica of the facade: that it lives, and what it has seen of endpoints. */
import { z } from 'zod'
import { GROUP, objectMeta } from './meta.ts'

/** The role in `davit.dev/replica-of`. */
export const API_ROLE = 'api'
/** Every change of a WebhookEndpoint up to this resourceVersion is known to the replica. */
export const ENDPOINTS_SEEN_ANNOTATION = `${GROUP}/endpoints-seen`

export const apiReplicaLease = z.object({
  metadata: objectMeta.extend({
    annotations: z.looseObject({
      [ENDPOINTS_SEEN_ANNOTATION]: z
        .string()
        .regex(/^\d{1,15}$/)
        .transform(Number),
    }),
  }),
  spec: z.object({
    /** The session. */
    holderIdentity: z.string().min(1).max(512),
    leaseDurationSeconds: z.int().min(1).max(3600),
  }),
})
