import { z } from 'zod'
import { INSTANT_ALLOWED, isInstant } from '../apis/meta.ts'
import { webhookEventSpec } from '../apis/webhook-event.ts'
import { elementMembers, MAX_JSON_DEPTH } from '../lib/strict-json.ts'
import { eventId } from './delivery-resource.ts'
import { EVENT_BYTES } from './http/limits.ts'
import { IDEMPOTENCY_KEY } from './http/request.ts'
import { PUBLISH, type Route, replayed, route } from './http/route.ts'
import { type BatchResult, invalid, type PublishingService } from './publishing.ts'

/** The routes that publish events, one or several at a time. */

const TYPE = { description: 'type is the name of an event type.', example: 'environment.started' }
const DATA = {
  description: 'data is any JSON value. Receivers get it exactly as sent.',
  example: { environmentId: 'env_1' },
}
const TIMESTAMP = {
  description:
    'timestamp is when the event happened, for the body that receivers get. It may be at most five minutes in the future. If omitted, it is the time at which Davit accepts the event.',
  format: 'date-time',
  example: '2026-01-31T12:00:00.000Z',
}

const body = z.strictObject({
  type: webhookEventSpec.shape.type.meta(TYPE),
  data: z.unknown().meta(DATA),
  timestamp: z.string().max(64).refine(isInstant, INSTANT_ALLOWED).optional().meta(TIMESTAMP),
  id: z
    .string()
    .regex(IDEMPOTENCY_KEY, 'must consist of 1 to 255 printable ASCII characters, with no spaces')
    .optional()
    .meta({ description: 'id has the same effect as the Idempotency-Key header.', maxLength: 255 }),
})

/** Of a batch, in events and in bytes of the body. */
const MAX_BATCH_EVENTS = 500
const MAX_BATCH_BYTES = 1024 * 1024
const MAX_TYPE = 128
/** The body and the list, so that each event may be as deep as one that is published alone. */
const MAX_BATCH_DEPTH = 2 + MAX_JSON_DEPTH
/** Its text, its events, and the text of their segments, each with up to two bytes for a character. */
const BATCH_FACTOR = 6

const batchBody = z.strictObject({
  events: z
    .array(
      z.strictObject({
        // Whether it exists, and so whether it is well-formed, is decided for each event.
        type: z.string().max(MAX_TYPE).meta(TYPE),
        data: z
          .unknown()
          // The handler needs its text only.
          .transform(() => undefined)
          .meta(DATA),
        timestamp: z.string().max(64).optional().meta(TIMESTAMP),
      }),
    )
    .min(1)
    .max(MAX_BATCH_EVENTS)
    .meta({
      description: 'events lists the events in the order in which Davit stores them.',
      example: [{ type: TYPE.example, data: DATA.example }],
    }),
})

const accepted = {
  eventId,
  deliveries: z
    .int()
    .meta({ description: 'deliveries is the number of endpoints to which Davit sends the event.' }),
}

const batchResult = z.discriminatedUnion('status', [
  z.object({
    status: z.literal('accepted').meta({ description: 'status says that the event has been accepted.' }),
    ...accepted,
  }),
  z.object({
    status: z
      .literal('rejected')
      .meta({ description: 'status says that the event is invalid and will not be sent.' }),
    errors: z
      .array(
        z.object({
          pointer: z.string().meta({ description: 'pointer is a JSON pointer into the body.' }),
          message: z.string().meta({ description: 'message says what is allowed.' }),
        }),
      )
      .meta({ description: 'errors lists each invalid value.' }),
  }),
])

export function publishRoutes(publishing: PublishingService): Route[] {
  return [publishRoute(publishing), publishBatchRoute(publishing)]
}

function publishRoute(publishing: Pick<PublishingService, 'publish'>): Route {
  return route({
    id: 'publishEvent',
    method: 'post',
    path: '/events',
    direct: true,
    tag: 'Events',
    summary: 'Publish an event',
    description:
      'Queues a delivery for every enabled endpoint that subscribes to the type. By the time the response arrives, the event is stored durably.',
    permission: PUBLISH,
    body,
    rawMembers: ['data'],
    bodyFactor: EVENT_BYTES,
    success: { status: 202, description: 'The event has been accepted.', body: z.object(accepted) },
    problems: ['idempotency_conflict', 'intake_full'],
    idempotent: true,
    async handle({ organization, body: { type, id, timestamp }, rawMember, idempotencyKey }) {
      const dataText = rawMember('data')
      if (dataText === undefined) throw invalid({ pointer: '/data', message: 'is required' })
      const key = oneKey(idempotencyKey, id)
      const publication = { type, dataText, timestamp }
      const published = await publishing.publish(organization, publication, { idempotencyKey: key })
      const { eventId, deliveries } = published
      return { body: { eventId, deliveries }, ...replayed(published.replayed) }
    },
  })
}

function publishBatchRoute(publishing: Pick<PublishingService, 'publishBatch'>): Route {
  return route({
    id: 'publishEvents',
    method: 'post',
    path: '/events/batch',
    direct: true,
    tag: 'Events',
    summary: 'Publish several events',
    description:
      'Publishes up to 500 events, which may have up to 4,096 deliveries in total. By the time the response arrives, all accepted events are stored durably, in the order of the request. An invalid event is rejected, and the others are accepted. If the outcome is unknown, repeat the request with the same Idempotency-Key: Davit then publishes only the missing events. Rejected events are checked again at each repeat.',
    permission: PUBLISH,
    body: batchBody,
    bodyBytes: MAX_BATCH_BYTES,
    bodyDepth: MAX_BATCH_DEPTH,
    bodyFactor: BATCH_FACTOR,
    cost: ({ events }) => events.length,
    success: {
      status: 202,
      description: 'At least one event has been accepted.',
      body: z.object({
        results: z
          .array(batchResult)
          .meta({ description: 'results contains the result of each event, in the order of the request.' }),
      }),
    },
    problems: ['idempotency_conflict', 'intake_full'],
    idempotent: true,
    async handle({ organization, body: { events }, rawMember, idempotencyKey }) {
      const texts = elementMembers(rawMember('events') ?? '[]', 'data')
      const publications = events.map((one, index) => ({ ...one, dataText: texts[index] }))
      const { results, replayed: isReplayed } = await publishing.publishBatch(organization, publications, {
        idempotencyKey,
      })
      return { body: { results: results.map(describe) }, ...replayed(isReplayed) }
    },
  })
}

function describe(result: BatchResult): z.input<typeof batchResult> {
  if ('errors' in result) return { status: 'rejected', errors: [...result.errors] }
  const { eventId, deliveries } = result
  return { status: 'accepted', eventId, deliveries }
}

/** The `id` in the body is an Idempotency-Key as well. */
function oneKey(header: string | undefined, id: string | undefined): string | undefined {
  if (header !== undefined && id !== undefined && header !== id) {
    throw invalid({
      pointer: '/id',
      message: 'must equal the Idempotency-Key header if both are sent',
    })
  }
  return header ?? id
}
