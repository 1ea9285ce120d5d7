/** What is done with an endpoint: ping it, roll its secret (interface §4.2). */
import { z } from 'zod'
import { webhookId } from './delivery-schemas.ts'
import type { Endpoints } from './endpoint-resource.ts'
import { PING, ROLL } from './http/permission.ts'
import { replayed } from './http/replayed.ts'
import { type Route, route } from './http/route.ts'
import type { Publishing } from './publishing.ts'
import { endpointId, signingSecret } from './schemas.ts'

const params = z.object({ endpointId })

export function endpointActionRoutes(endpoints: Endpoints, publishing: Publishing): Route[] {
  return [pingRoute(publishing), rollRoute(endpoints)]
}

function pingRoute(publishing: Publishing): Route {
  return route({
    id: 'pingEndpoint',
    method: 'post',
    path: '/webhooks/{endpointId}/ping',
    tag: 'Webhook endpoints',
    summary: 'Send a ping',
    description: 'Queues one `webhook.ping`, verifiable like any event, whatever the endpoint subscribes to.',
    permission: PING,
    params,
    body: z.strictObject({}),
    bodyOptional: true,
    success: { status: 202, description: 'The ping is queued.', body: z.object({ webhookId }) },
    problems: ['endpoint_disabled', 'idempotency_conflict', 'intake_full', 'unreadable'],
    idempotent: true,
    async handle({ organization, params: { endpointId }, idempotencyKey }) {
      const queued = await publishing.ping({ organization, endpointId }, { idempotencyKey })
      return { body: { webhookId: queued.eventId }, ...replayed(queued.replayed) }
    },
  })
}

function rollRoute(endpoints: Endpoints): Route {
  return route({
    id: 'rollSecret',
    method: 'post',
    path: '/webhooks/{endpointId}/secret/roll',
    tag: 'Webhook endpoints',
    summary: 'Roll the signing secret',
    description:
      'The new secret signs the very next attempt. The old one signs beside it for 24 hours, or ends at once with `expireOld`.',
    permission: ROLL,
    params,
    body: z.strictObject({
      expireOld: z.boolean().default(false).meta({ description: 'The old secrets end at once.' }),
    }),
    bodyOptional: true,
    success: {
      status: 200,
      description: 'The new signing secret.',
      body: z.object({
        secret: signingSecret.optional(),
        overlapSeconds: z
          .int()
          .meta({ description: 'How long the old secret still signs.', example: 86_400 }),
      }),
    },
    problems: ['too_many_secrets', 'idempotency_conflict', 'not_acknowledged', 'unreadable'],
    idempotent: true,
    async handle({ organization, params: { endpointId }, body, idempotencyKey }) {
      const rolled = await endpoints.roll({ organization, endpointId }, body, { idempotencyKey })
      const { secret, overlapSeconds } = rolled
      return {
        body: { ...(secret === undefined ? {} : { secret }), overlapSeconds },
        ...replayed(rolled.replayed),
      }
    },
  })
}
