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
      describe: 'type is the name of an EventType.',
    }),
    data: z.unknown().optional().meta({
      description:
        'data is the event data: any JSON value except null, up to 256 KiB. The API server may rewrite numbers; to preserve them exactly, use dataText. Set either data or dataText.',
      'x-kubernetes-preserve-unknown-fields': true,
    }),
    dataText: text({
      min: 1,
      max: MAX_DATA_BYTES,
      describe: 'dataText is the event data as JSON text, delivered unchanged. Set either data or dataText.',
    }).optional(),
    timestamp: instant(
      'timestamp is when the event happened, for the body that receivers get. It may be at most five minutes in the future. The default is the time at which Davit accepts the event.',
    ).optional(),
    ttlSecondsAfterFinished: z.int32().min(0).max(31_536_000).optional().meta({
      description:
        'ttlSecondsAfterFinished is the number of seconds after which a dispatched or rejected event is deleted. If unset, the event is kept.',
    }),
  })
  .meta({
    // A schema could require one of the two, but not say so in words: rules cannot see `data`, which may be of any type.
    description: 'spec is the event to publish. It is immutable. Either data or dataText is required.',
    'x-kubernetes-validations': [
      { rule: 'self == oldSelf', message: 'is immutable; create a new WebhookEvent instead' },
    ],
  })

const eventState = z.enum(['accepted', 'dispatched', 'refused'])
export type EventState = z.infer<typeof eventState>

export const webhookEventStatus = z
  .object({
    state: eventState.optional().meta({
      description:
        'state is accepted (stored in the delivery log), dispatched (every delivery has finished) or `refused` (the Ready condition contains the cause).',
    }),
    eventId: text({
      max: 64,
      describe:
        'eventId is the ID of the event and of each of its deliveries. Receivers get it in the webhook-id header.',
    }).optional(),
    deliveries: z
      .int32()
      .min(0)
      .optional()
      .meta({ description: 'deliveries is the number of endpoints to which Davit sends the event.' }),
    finishedAt: instant('finishedAt is when the event was dispatched or rejected.').optional(),
    observedGeneration,
    conditions: conditions.optional(),
  })
  .meta({ description: 'status is the observed state of the event. Only Davit writes it.' })

export const webhookEvent = objectOf(webhookEventSpec, webhookEventStatus)
export type WebhookEvent = z.infer<typeof webhookEvent>
export type WebhookEventSpec = z.infer<typeof webhookEventSpec>
export type WebhookEventStatus = z.infer<typeof webhookEventStatus>

export const webhookEventKind: KindDefinition = {
  kind: 'WebhookEvent',
  plural: 'webhookevents',
  singular: 'webhookevent',
  shortNames: ['wev'],
  scope: 'Namespaced',
  description:
    'WebhookEvent is an event of an organization. Davit delivers it to the endpoints that subscribe to its type.',
  spec: webhookEventSpec,
  status: webhookEventStatus,
  rules: [DNS_LABEL_NAME],
  columns: [
    { name: 'Type', type: 'string', jsonPath: '.spec.type' },
    { name: 'State', type: 'string', jsonPath: '.status.state' },
    { name: 'Deliveries', type: 'integer', jsonPath: '.status.deliveries' },
    { name: 'Id', type: 'string', jsonPath: '.status.eventId', priority: 1 },
    { name: 'Ready', type: 'string', jsonPath: '.status.conditions[?(@.type=="Ready")].status' },
    { name: 'Reason', type: 'string', jsonPath: '.status.conditions[?(@.type=="Ready")].reason' },
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
