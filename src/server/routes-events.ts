/** Publishing an event. */
import { z } from 'zod'
import { webhookEventSpec } from '../apis/webhook-event.ts'
import { PUBLISH } from './http/permission.ts'
import { Problem } from './http/problems.ts'
import { replayed } from './http/replayed.ts'
import { IDEMPOTENCY_KEY } from './http/request-headers.ts'
import { type Route, route } from './http/route.ts'
import type { Publishing } from './publishing.ts'

const body = z.strictObject({
  type: webhookEventSpec.shape.type.meta({
    description: 'Name of an event type.',
    example: 'environment.started',
  }),
  data: z.unknown().meta({
    description: 'Any JSON; its characters reach the receivers as they came.',
    example: { environmentId: 'env_1' },
  }),
  id: z
    .string()
    .regex(IDEMPOTENCY_KEY, 'must be 1 to 255 visible ASCII characters without spaces')
    .optional()
    .meta({ description: 'Does what Idempotency-Key does.', maxLength: 255 }),
})

export function eventRoutes(publishing: Publishing): Route[] {
  return [
    route({
      id: 'publishEvent',
      method: 'post',
      path: '/events',
      tag: 'Events',
      summary: 'Publish an event',
      description:
        'Queues a delivery for every enabled endpoint that subscribes to the type. Durable when it is answered.',
      permission: PUBLISH,
      body,
      success: {
        status: 202,
        description: 'The event is accepted.',
        body: z.object({
          eventId: z.string().meta({
            description: 'The webhook-id of its deliveries.',
            example: 'msg_3ywq8x2k1m5n7p9r0s4t6v8w2z',
          }),
          deliveries: z.int().meta({ description: 'How many endpoints get it.' }),
        }),
      },
      problems: ['idempotency_conflict', 'intake_full'],
      idempotent: true,
      async handle({ organization, body: { type, id }, rawMember, idempotencyKey }) {
        const dataText = rawMember('data')
        if (dataText === undefined) throw wrong('/data', 'is required')
        const key = oneKey(idempotencyKey, id)
        const published = await publishing.publish(organization, { type, dataText }, { idempotencyKey: key })
        const { eventId, deliveries } = published
        return { body: { eventId, deliveries }, ...replayed(published.replayed) }
      },
    }),
  ]
}

/** A body's `id` is an Idempotency-Key; both, and different, contradict each other. */
function oneKey(header: string | undefined, id: string | undefined): string | undefined {
  if (header !== undefined && id !== undefined && header !== id) {
    throw wrong('/id', 'differs from the Idempotency-Key; send one of them')
  }
  return header ?? id
}

function wrong(pointer: string, message: string): Problem {
  return new Problem('invalid', { errors: [{ pointer, message }] })
}
