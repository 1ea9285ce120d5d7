import { z } from 'zod'
import { MESSAGE_ID, messageId, timeOfName } from '../apis/ids.ts'
import { deliveryState } from '../apis/webhook-delivery.ts'
import { isFinal } from '../webhooks/delivery/plan.ts'
import type { LineStatus } from './delivery-index/line-table.ts'
import { time } from './lists.ts'

/** A delivery as the REST API shows it, in the list and by itself (interface §2.5). */

/** Of a delivery, for the document. */
export const EXAMPLE_ID = 'msg_3ywq8x2k1m5n7p9r0s4t6v8w2z'

export const deliveryId = z
  .string()
  .regex(MESSAGE_ID)
  .meta({ description: 'Id of a delivery, which is the webhook-id that receivers see.', example: EXAMPLE_ID })

const line = {
  deliveryId,
  eventType: z.string().meta({ description: 'Type of the event.', example: 'environment.started' }),
  status: deliveryState.meta({
    description:
      'pending: no attempt has ended. retrying: another attempt follows. succeeded, exhausted (eight attempts failed) and canceled are final.',
  }),
  attemptCount: z.int().min(0).max(8).meta({ description: 'Attempts made.' }),
  nextAttemptAt: time('When the next attempt is due.').optional(),
  completedAt: time('When it came to its end.').optional(),
  redeliveryOf: z.string().optional().meta({ description: 'The delivery that this one repeats.' }),
  createdAt: time('When the event was accepted.'),
}

const attempt = z.object({
  at: time('When the attempt started.'),
  code: z.int().optional().meta({ description: 'HTTP status; absent without a response.' }),
  latencyMs: z.int().meta({ description: 'Milliseconds until the outcome was known.' }),
  error: z.string().optional().meta({ description: 'Why it failed; absent if it succeeded.' }),
  response: z.string().optional().meta({ description: 'First 256 bytes of the response body.' }),
})

export const delivery = z
  .object(line)
  .meta({ id: 'Delivery', description: 'One attempt series of one event to one endpoint.' })

export const deliveryWithAttempts = z
  .object({ ...line, attempts: z.array(attempt).meta({ description: 'Every attempt, oldest first.' }) })
  .meta({ id: 'DeliveryWithAttempts', description: 'A delivery and every attempt of it.' })

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
