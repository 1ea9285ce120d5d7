import { z } from 'zod'
import {
  ENDPOINT_PREFIX,
  EVENT_TYPE,
  MAX_EVENT_TYPE,
  MESSAGE_ID,
  messageId,
  timeOfName,
} from '../apis/ids.ts'
import { deliveryState } from '../apis/webhook-delivery.ts'
import { isFinal } from '../webhooks/delivery/plan.ts'
import type { EndpointIdentity } from '../webhooks/endpoints/directory.ts'
import type { LineStatus } from './delivery-index/line-table.ts'
import { endpointId } from './endpoint-resource.ts'
import { time } from './lists.ts'

/** A delivery as the REST API shows it, in the list and by itself (interface §2.5). */

/** Of a delivery, for the document. */
export const EXAMPLE_ID = 'msg_3ywq8x2k1m5n7p9r0s4t6v8w2z'

export const eventId = z.string().meta({
  description:
    'eventId is the ID of the event and of each of its deliveries. Receivers get it in the webhook-id header.',
  example: EXAMPLE_ID,
})

/** Of the query of a list. */
export const eventTypeFilter = z
  .string()
  .max(MAX_EVENT_TYPE)
  .regex(EVENT_TYPE, 'must be an event type such as environment.started')
  .optional()

export const deliveryId = z.string().regex(MESSAGE_ID).meta({
  description:
    'deliveryId is the ID of the delivery, which is also the ID of its event. Receivers get it in the webhook-id header.',
  example: EXAMPLE_ID,
})

const line = {
  deliveryId,
  endpointId,
  eventType: z
    .string()
    .meta({ description: 'eventType is the type of the event.', example: 'environment.started' }),
  status: deliveryState.meta({
    description:
      'status is the state of the delivery. `pending`: no attempt has finished. `retrying`: another attempt follows. `succeeded`, `exhausted` (eight attempts failed) and `canceled` are final.',
  }),
  attemptCount: z.int().min(0).max(8).meta({ description: 'attemptCount is the number of attempts made.' }),
  nextAttemptAt: time('nextAttemptAt is the time at which the next attempt is due.').optional(),
  completedAt: time('completedAt is the time at which the delivery reached a final status.').optional(),
  redeliveryOf: z.string().optional().meta({
    description:
      'redeliveryOf is the ID of the original delivery, if this delivery was created by a redelivery.',
  }),
  createdAt: time('createdAt is the time at which the event was accepted.'),
}

const attempt = z.object({
  at: time('at is the time at which the attempt started.'),
  code: z
    .int()
    .optional()
    .meta({ description: 'code is the HTTP status code. It is absent if there was no response.' }),
  latencyMs: z
    .int()
    .meta({ description: 'latencyMs is the number of milliseconds until the result was known.' }),
  error: z.string().optional().meta({
    description: 'error is the reason why the attempt failed. It is absent if the attempt succeeded.',
  }),
  response: z
    .string()
    .optional()
    .meta({ description: 'response contains the first 256 bytes of the response body.' }),
})

/** Memory for a response with one body, whose escapes double it, and for the segment that it is read from. */
export const BYTES_OF_BODY = 2 * 1024 * 1024

export const delivery = z.object(line).meta({
  id: 'Delivery',
  description: 'The delivery of one event to one endpoint, in one or more attempts.',
})

const request = z
  .object({
    headers: z.record(z.string(), z.string()).meta({
      description:
        'headers contains the headers of the last attempt, or before the first attempt those that are known. Davit keeps no signatures, so webhook-signature is `[redacted]`.',
      example: headersOf(EXAMPLE_ID, '2026-01-31T12:00:00.000Z'),
    }),
    body: z.string().optional().meta({
      description:
        'body is the body that receivers get, byte for byte. It is absent if Davit has just deleted it.',
    }),
  })
  .meta({ description: 'request is the request that receivers get. It is absent unless it was included.' })

export const deliveryWithAttempts = z
  .object({
    ...line,
    attempts: z.array(attempt).meta({ description: 'attempts lists all attempts, oldest first.' }),
    request: request.optional(),
  })
  .meta({ id: 'DeliveryWithAttempts', description: 'A delivery and all its attempts.' })

export type DeliveryLine = z.output<typeof delivery>
export type DeliveryDetail = z.output<typeof deliveryWithAttempts>

/** @param of the id of the event without its prefix, and its receiver */
export function describeLine(
  { name, endpoint }: { name: string; endpoint: Pick<EndpointIdentity, 'name'> },
  { state, attempts, at }: LineStatus,
  event: { type: string; redeliveryOf?: string | undefined },
): DeliveryLine {
  const time = timeText(at)
  return {
    deliveryId: messageId(name),
    endpointId: ENDPOINT_PREFIX + endpoint.name,
    eventType: event.type,
    status: state,
    attemptCount: attempts,
    ...(time === undefined ? {} : isFinal(state) ? { completedAt: time } : { nextAttemptAt: time }),
    ...(event.redeliveryOf === undefined ? {} : { redeliveryOf: event.redeliveryOf }),
    createdAt: new Date(timeOfName(name)).toISOString(),
  }
}

/**
 * The headers of an attempt, as far as they say what the receiver can check. A signature that was computed again could be replayed while
 * its timestamp is recent, so that reading a delivery would be as good as holding the secret.
 * @param at start of the attempt; undefined before the first
 */
export function headersOf(deliveryId: string, at: string | undefined): Record<string, string> {
  const timestamp = at === undefined ? {} : { 'webhook-timestamp': String(Math.floor(Date.parse(at) / 1000)) }
  return {
    'content-type': 'application/json',
    'webhook-id': deliveryId,
    ...timestamp,
    'webhook-signature': '[redacted]',
  }
}

function timeText(at: number): string | undefined {
  const time = new Date(at)
  return at > 0 && !Number.isNaN(time.getTime()) ? time.toISOString() : undefined
}
