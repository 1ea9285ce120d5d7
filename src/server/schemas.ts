/** Endpoints as REST shows and takes them (interface §2.3). */
import { z } from 'zod'
import { ENDPOINT_PREFIX, EVENT_TYPE, MAX_EVENT_TYPE } from '../apis/identifiers.ts'
import { DNS_LABEL } from '../apis/meta.ts'
import { deliveryLog, endpointState, webhookEndpointSpec } from '../apis/webhook-endpoint.ts'

const spec = webhookEndpointSpec.shape

export function time(description: string) {
  return z.string().meta({ description, format: 'date-time', example: '2026-01-31T12:00:00.000Z' })
}

export const endpointId = z
  .string()
  .regex(new RegExp(`^${ENDPOINT_PREFIX}${DNS_LABEL.source.slice(1)}`))
  .meta({ description: 'Id of an endpoint.', example: 'whe_billing' })

/** The API server would store something else than what was answered. */
export const SURROGATE_MESSAGE = 'must not have half a surrogate pair'

const url = spec.url.refine((value) => value.isWellFormed(), SURROGATE_MESSAGE)
const description = z
  .string()
  .refine((value) => value.isWellFormed(), SURROGATE_MESSAGE)
  .pipe(spec.description.unwrap())
  .meta({ description: 'A label for people.', maxLength: 200, example: 'Billing' })
const ordered = z.boolean().meta({ description: 'Deliver strictly in order.' })
const concurrency = z
  .int32()
  .min(1)
  .max(32)
  .meta({ description: 'Deliveries at a time; an ordered endpoint always has one.' })
const log = deliveryLog.meta({
  description:
    'Whether a delivery that succeeds at once becomes an object of its own; this list shows both alike.',
})
const status = endpointState.meta({ description: 'A disabled endpoint receives nothing.' })

/** What the refinements of the spec say, in the words of JSON Schema. */
const SUBSCRIPTIONS = [
  { type: 'array', items: { type: 'string', const: '*' }, minItems: 1, maxItems: 1 },
  {
    type: 'array',
    items: { type: 'string', pattern: EVENT_TYPE.source, minLength: 1, maxLength: MAX_EVENT_TYPE },
    minItems: 1,
    maxItems: 100,
    uniqueItems: true,
  },
] as const

const subscribed = spec.eventTypes.meta({
  description: 'Subscribed event types, each once; or `*` alone for all, those added later included.',
  example: ['environment.started', 'environment.stopped'],
  override({ jsonSchema }) {
    for (const keyword of ['type', 'items', 'minItems', 'maxItems'] as const) delete jsonSchema[keyword]
    jsonSchema.anyOf = structuredClone(SUBSCRIPTIONS) as unknown as NonNullable<typeof jsonSchema.anyOf>
  },
})

export const endpointDraft = z.strictObject({
  url: url.meta({ example: 'https://example.com/hooks' }),
  eventTypes: subscribed,
  description: description.optional(),
  ordered: ordered.optional(),
  concurrency: concurrency.optional(),
  deliveryLog: log.optional(),
})

export const endpointChange = z.strictObject({
  status: status.optional(),
  url: url.optional(),
  eventTypes: subscribed.optional(),
  description: description.nullable().optional(),
  ordered: ordered.optional(),
  concurrency: concurrency.optional(),
  deliveryLog: log.optional(),
})

export const endpoint = z
  .object({
    endpointId,
    url: z.string(),
    eventTypes: z.array(z.string()),
    description: z.string().optional(),
    ordered: z.boolean(),
    status,
    disabledReason: z
      .enum(['ConsecutiveFailures', 'Requested'])
      .optional()
      .meta({ description: 'Why it is disabled; absent while it is enabled.' }),
    consecutiveFailures: z.int().meta({ description: 'Exhausted deliveries in a row.' }),
    failingSince: time("The streak's first exhausted delivery; absent without one.").optional(),
    deliveryLog: log,
    concurrency: z.int(),
    createdAt: time('When it was created.'),
    updatedAt: time('When something of it last changed that its owner can see, counters aside.'),
  })
  .meta({ id: 'WebhookEndpoint', description: 'Where an organization wants its events delivered.' })

export const signingSecret = z.string().meta({
  description: 'The signing secret, shown in this one answer and never again; absent in a repeated answer.',
  example: 'whsec_ZGF2aXQgc2lnbmluZyBzZWNyZXQgMjRi',
})
