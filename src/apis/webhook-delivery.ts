import { z } from 'zod'
import {
  DNS_LABEL_NAME,
  instant,
  type KindDefinition,
  objectOf,
  resourceType,
  text,
  VIEW_LABEL,
} from './meta.ts'

/** WebhookDelivery: the attempts for one event to one endpoint (interface §2.5, §3.2). Created by Davit only. */

/**
 * pending    no attempt has ended yet
 * retrying   an attempt failed, another will follow at `nextAttemptAt`
 * succeeded  an attempt was answered with 2xx (final)
 * exhausted  the eighth attempt failed (final)
 * canceled   ended by Davit or the owner's act, `reason` says why (final)
 */
export const deliveryState = z.enum(['pending', 'retrying', 'succeeded', 'exhausted', 'canceled'])
export type DeliveryState = z.infer<typeof deliveryState>

export const cancelReason = z.enum([
  'EndpointDeleted',
  'HeldTooLong',
  'Duplicate',
  'CannotStore',
  'NamespaceGone',
  'PayloadLost',
  'Restored',
])
export type CancelReason = z.infer<typeof cancelReason>

export const payloadRef = z
  .object({
    segment: text({ min: 1, max: 63, describe: 'segment is the name of the DeliverySegment.' }),
    event: z.int32().min(0).meta({ description: 'event is the index of the event in the segment.' }),
    bytes: z.int32().min(0).meta({ description: 'bytes is the size of the payload.' }).optional(),
  })
  .meta({ description: 'payloadRef is the location of a payload larger than 16 KiB in the delivery log.' })

export type PayloadRef = z.infer<typeof payloadRef>

export const webhookDeliverySpec = z
  .object({
    endpoint: text({ min: 1, max: 63, describe: 'endpoint is the name of the WebhookEndpoint.' }),
    endpointUid: text({
      min: 1,
      max: 64,
      describe:
        'endpointUid is the UID of the endpoint. An endpoint that is recreated with the same name does not inherit the delivery.',
    }),
    deliveryId: text({
      min: 30,
      max: 30,
      pattern: /^msg_[0-9a-z]{26}$/,
      describe: 'deliveryId is the webhook-id that receivers get.',
    }),
    eventType: text({ min: 1, max: 128, describe: 'eventType is the type of the event.' }),
    position: text({
      min: 3,
      max: 40,
      pattern: /^[0-9]+\/[0-9]+$/,
      describe:
        'position is the position in the delivery log. An ordered endpoint gets deliveries in this order.',
    }),
    payload: text({ max: 16384, describe: 'payload is the exact body, up to 16 KiB.' }).optional(),
    payloadRef: payloadRef.optional(),
    redeliveryOf: text({
      max: 64,
      describe: 'redeliveryOf is the delivery that this one repeats.',
    }).optional(),
    writtenAt: instant(
      'writtenAt is when Davit created the object. In an object that was restored from a backup, it is earlier than creationTimestamp; Davit does not send such a delivery.',
    ),
  })
  .refine(
    ({ payload, payloadRef }) => (payload === undefined) !== (payloadRef === undefined),
    'must set either payload or payloadRef, but not both',
  )
  .meta({
    description: 'spec is the delivery. It is immutable.',
    oneOf: [{ required: ['payload'] }, { required: ['payloadRef'] }],
    'x-kubernetes-map-type': 'atomic',
    'x-kubernetes-validations': [
      { rule: 'self == oldSelf', message: 'is immutable; a redelivery is a new WebhookDelivery' },
    ],
  })

export const deliveryAttempt = z
  .object({
    at: instant('at is when the attempt started.'),
    code: z
      .int32()
      .optional()
      .meta({ description: 'code is the HTTP status code. It is unset if there was no response.' }),
    latencyMs: z
      .int32()
      .min(0)
      .meta({ description: 'latencyMs is the number of milliseconds until the outcome was known.' }),
    error: text({
      max: 256,
      describe: 'error explains why the attempt failed. It is unset if the attempt succeeded.',
    }).optional(),
    response: text({
      max: 256,
      describe: 'response contains the first 256 bytes of the response body.',
    }).optional(),
  })
  .meta({ description: 'A delivery attempt.' })
export type DeliveryAttempt = z.infer<typeof deliveryAttempt>

export const webhookDeliveryStatus = z
  .object({
    state: deliveryState.optional().meta({
      description: 'state is pending (the default), retrying, succeeded, exhausted or canceled.',
      default: 'pending',
    }),
    reason: cancelReason.optional().meta({ description: 'reason is why the delivery was canceled.' }),
    attemptCount: z
      .int32()
      .min(0)
      .max(8)
      .optional()
      .meta({ description: 'attemptCount is the number of attempts made, at most 8.' }),
    nextAttemptAt: instant('nextAttemptAt is when the next attempt is due.').optional(),
    attempts: z.array(deliveryAttempt).max(8).optional().meta({
      description: 'attempts contains every attempt, oldest first.',
      'x-kubernetes-list-type': 'atomic',
    }),
    completedAt: instant('completedAt is when the delivery finished.').optional(),
  })
  .meta({
    description: 'status is the observed state of the delivery. Only Davit writes it.',
    'x-kubernetes-map-type': 'atomic',
  })

const labels = z.record(z.string(), z.string()).optional()

type Viewable<S> = {
  metadata: { labels?: Record<string, string> | undefined; creationTimestamp?: string | undefined }
  status?: S | undefined
}

/**
 * A view is made for a delivery that has succeeded, and gets its status by a second write. Until that comes it is `pending` by default,
 * but how the delivery ended is known. `isUnwritten`: the second write is missing; it will not come if the process has died.
 */
function withStatusOfView<S extends { state?: DeliveryState | undefined }, T extends Viewable<S>>(
  object: T,
): T & { isUnwritten?: boolean | undefined } {
  const { metadata, status } = object
  const { state = 'pending' } = status ?? {}
  if (metadata.labels?.[VIEW_LABEL] !== 'true' || state !== 'pending') return object
  const createdAt = Date.parse(metadata.creationTimestamp ?? '') || 0
  const completedAt = new Date(createdAt).toISOString()
  const known = { state: 'succeeded', attemptCount: 1, completedAt }
  return { ...object, isUnwritten: true, status: { ...status, ...known } }
}

export const webhookDelivery = objectOf(webhookDeliverySpec, webhookDeliveryStatus).transform(
  withStatusOfView,
)
export type WebhookDeliverySpec = z.infer<typeof webhookDeliverySpec>
export type WebhookDeliveryStatus = z.infer<typeof webhookDeliveryStatus>
export type WebhookDelivery = z.infer<typeof webhookDelivery>

export const webhookDeliveryKind: KindDefinition = {
  kind: 'WebhookDelivery',
  plural: 'webhookdeliveries',
  singular: 'webhookdelivery',
  shortNames: ['wdl'],
  isNumerous: true,
  scope: 'Namespaced',
  description:
    'WebhookDelivery is the delivery of one event to one endpoint, in one or more attempts. Only Davit creates and changes it.',
  spec: webhookDeliverySpec,
  status: webhookDeliveryStatus,
  rules: [DNS_LABEL_NAME],
  columns: [
    { name: 'Endpoint', type: 'string', jsonPath: '.spec.endpoint' },
    { name: 'Type', type: 'string', jsonPath: '.spec.eventType' },
    { name: 'State', type: 'string', jsonPath: '.status.state' },
    { name: 'Attempts', type: 'integer', jsonPath: '.status.attemptCount' },
    { name: 'Code', type: 'integer', jsonPath: '.status.attempts[-1:].code' },
    { name: 'Next', type: 'string', jsonPath: '.status.nextAttemptAt' },
    { name: 'Error', type: 'string', jsonPath: '.status.attempts[-1:].error', priority: 1 },
    { name: 'Latency', type: 'integer', jsonPath: '.status.attempts[-1:].latencyMs', priority: 1 },
    { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
  ],
  selectable: ['.spec.endpoint', '.spec.eventType', '.spec.deliveryId', '.status.state'],
}
export const webhookDeliveries = resourceType(webhookDeliveryKind)

/** Of a payload only its length. */
const payloadLength = {
  payload: z
    .string()
    .transform((text) => Buffer.byteLength(text, 'utf8'))
    .optional(),
  payloadRef: z.object({ segment: z.string(), bytes: z.number().optional() }).optional(),
}

/** The fields that the delivery engine keeps in memory: the length of the payload, no attempts. */
export const deliveryOutline = z
  .object({
    metadata: z.object({
      name: z.string(),
      namespace: z.string(),
      uid: z.string(),
      resourceVersion: z.string(),
      creationTimestamp: z.string(),
      labels,
    }),
    spec: z.object({
      endpoint: z.string(),
      endpointUid: z.string(),
      deliveryId: z.string(),
      position: z.string(),
      writtenAt: z.string(),
      ...payloadLength,
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
  .transform(withStatusOfView)
export type DeliveryOutline = z.infer<typeof deliveryOutline>

/** The fields that lists show. Attempts are not validated, since few of them are looked at. */
export const deliveryListItem = z
  .object({
    metadata: z.object({
      name: z.string(),
      namespace: z.string(),
      creationTimestamp: z.string().optional(),
      labels,
    }),
    spec: z.object({
      endpoint: z.string().optional(),
      endpointUid: z.string(),
      deliveryId: z.string(),
      eventType: z.string(),
      redeliveryOf: z.string().optional(),
      ...payloadLength,
    }),
    status: z
      .object({
        state: deliveryState.optional(),
        attemptCount: z.int().min(0).max(8).optional(),
        attempts: z.unknown().optional(),
        nextAttemptAt: z.string().optional(),
        completedAt: z.string().optional(),
      })
      .optional(),
  })
  .transform(withStatusOfView)
