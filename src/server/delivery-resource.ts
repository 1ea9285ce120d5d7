import { z } from 'zod'
import { MESSAGE_ID, messageId, timeOfName } from '../apis/ids.ts'
import { deliveryState } from '../apis/webhook-delivery.ts'
import { isFinal } from '../webhooks/delivery/plan.ts'
import type { LineStatus } from './delivery-index/line-table.ts'
import { time } from './lists.ts'

/** A delivery as the REST API shows it, in the list and by itself (interface §2.5). */

/** Of a delivery, for the document. */
export const EXAMPLE_ID = 'msg_3ywq8x2k1m5n7p9r0s4t6v8w2z'

export const deliveryId = z.string().regex(MESSAGE_ID).meta({
  description: 'deliveryId is the ID of the delivery. Receivers see it as webhook-id.',
  example: EXAMPLE_ID,
})

const line = {
  deliveryId,
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
  redeliveryOf: z
    .string()
    .optional()
    .meta({ description: 'redeliveryOf is the ID of the delivery that this delivery repeats.' }),
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

export const delivery = z.object(line).meta({
  id: 'Delivery',
  description: 'The delivery of one event to one endpoint, in one or more attempts.',
})

export const deliveryWithAttempts = z
  .object({
    ...line,
    attempts: z.array(attempt).meta({ description: 'attempts lists all attempts, oldest first.' }),
  })
  .meta({ id: 'DeliveryWithAttempts', description: 'A delivery and all its attempts.' })

export type DeliveryLine = z.output<typeof delivery>
export type DeliveryDetail = z.output<typeof deliveryWithAttempts>

export function describeLine(
  name: string,
  { state, attempts, at }: LineStatus,
  event: { type: string; redeliveryOf?: string | undefined },
): DeliveryLine {
  const time = timeText(at)
  return {
    deliveryId: messageId(name),
    eventType: event.type,
    status: state,
    attemptCount: attempts,
    ...(time === undefined ? {} : isFinal(state) ? { completedAt: time } : { nextAttemptAt: time }),
    ...(event.redeliveryOf === undefined ? {} : { redeliveryOf: event.redeliveryOf }),
    createdAt: new Date(timeOfName(name)).toISOString(),
  }
}

function timeText(at: number): string | undefined {
  const time = new Date(at)
  return at > 0 && !Number.isNaN(time.getTime()) ? time.toISOString() : undefined
}
