import { z } from 'zod'
import { EVENT_TYPE, EVENT_TYPE_ALLOWED, MAX_EVENT_TYPE } from './ids.ts'
import {
  conditions,
  DNS_LABEL_NAME,
  instant,
  type KindDefinition,
  objectOf,
  observedGeneration,
  resourceType,
  text,
} from './meta.ts'

/** WebhookEvent: an event to publish with kubectl. Immutable; Davit never deletes one without a TTL. */

/** Largest `data`, in bytes of JSON. */
export const MAX_DATA_BYTES = 256 * 1024

export const webhookEventSpec = z
  .object({
    type: text({
      min: 1,
      max: MAX_EVENT_TYPE,
      pattern: EVENT_TYPE,
      allowed: EVENT_TYPE_ALLOWED,
      describe: 'Name of an EventType.',
    }),
    data: z.unknown().optional().meta({
      description:
        'Any JSON up to 256 KiB but null. Numbers pass through the API server, which may rewrite them.',
      'x-kubernetes-preserve-unknown-fields': true,
    }),
    dataText: text({
      min: 1,
      max: MAX_DATA_BYTES,
      describe: 'The data as JSON text, delivered to the digit. Give this or `data`.',
    }).optional(),
    ttlSecondsAfterFinished: z.int32().min(0).max(31_536_000).optional().meta({
      description:
        'Delete this object so many seconds after it was dispatched or refused; never where absent.',
    }),
  })
  .refine(
    ({ data, dataText }) => (data !== undefined && data !== null) !== (dataText !== undefined),
    'must have one of data (any JSON but null) and dataText, not both',
  )
  .meta({
    description: 'What to publish; immutable. One of `data` and `dataText` is required.',
    oneOf: [{ required: ['data'] }, { required: ['dataText'] }],
    'x-kubernetes-validations': [
      { rule: 'self == oldSelf', message: 'is immutable; make a new WebhookEvent' },
    ],
  })

const eventState = z.enum(['accepted', 'dispatched', 'refused'])
export type EventState = z.infer<typeof eventState>

export const webhookEventStatus = z
  .object({
    state: eventState.optional().meta({
      description:
        'accepted: durable in the delivery log. dispatched: every delivery of it has come to its end. refused: see the condition.',
    }),
    eventId: text({ max: 64, describe: 'The webhook-id of its deliveries.' }).optional(),
    deliveries: z.int32().min(0).optional().meta({ description: 'Number of endpoints that it goes to.' }),
    finishedAt: instant('When it was dispatched or refused.').optional(),
    observedGeneration,
    conditions: conditions.optional(),
  })
  .meta({ description: 'What came of it; written by Davit only.' })

export const webhookEvent = objectOf(webhookEventSpec, webhookEventStatus)
export type WebhookEvent = z.infer<typeof webhookEvent>
export type WebhookEventStatus = z.infer<typeof webhookEventStatus>

export const webhookEventKind: KindDefinition = {
  kind: 'WebhookEvent',
  plural: 'webhookevents',
  singular: 'webhookevent',
  shortNames: ['wev'],
  scope: 'Namespaced',
  description: 'An event of an organization, published to its endpoints that subscribe to its type.',
  spec: webhookEventSpec,
  status: webhookEventStatus,
  rules: [DNS_LABEL_NAME],
  columns: [
    { name: 'Type', type: 'string', jsonPath: '.spec.type' },
    { name: 'State', type: 'string', jsonPath: '.status.state' },
    { name: 'Deliveries', type: 'integer', jsonPath: '.status.deliveries' },
    { name: 'Id', type: 'string', jsonPath: '.status.eventId', priority: 1 },
    {
      name: 'Reason',
      type: 'string',
      jsonPath: '.status.conditions[?(@.type=="Ready")].reason',
      priority: 1,
    },
    { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
  ],
  selectable: ['.spec.type', '.status.state'],
}
export const webhookEvents = resourceType(webhookEventKind)

/** The fields that the process keeps in memory, without the data. */

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
