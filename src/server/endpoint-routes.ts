import { z } from 'zod'
import { endpoint, endpointChange, endpointDraft, endpointId } from './endpoint-resource.ts'
import type { EndpointService } from './endpoints.ts'
import { MANAGE_WEBHOOKS, PING, ROLL, type Route, replayed, route } from './http/route.ts'
import { type Cursors, nextCursor, pageQuery } from './lists.ts'
import { type PublishingService, webhookId } from './publishing.ts'

/** The routes of webhook endpoints (interface §4.2). */

const TAG = 'Webhook endpoints'
const ETAG = { ETag: 'Of the endpoint as it is now, for If-Match.' }

const params = z.object({ endpointId })
const one = z.object({ endpoint })
const signingSecret = z.string().meta({
  description: 'The signing secret, shown in this one answer and never again; absent in a repeated answer.',
  example: 'whsec_ZGF2aXQgc2lnbmluZyBzZWNyZXQgMjRi',
})

export function endpointRoutes(
  endpoints: EndpointService,
  publishing: PublishingService,
  cursors: Cursors,
): Route[] {
  return [
    createRoute(endpoints),
    listRoute(endpoints, cursors),
    getRoute(endpoints),
    changeRoute(endpoints),
    removeRoute(endpoints),
    pingRoute(publishing),
    rollRoute(endpoints),
  ]
}

function createRoute(endpoints: EndpointService): Route {
  return route({
    id: 'createEndpoint',
    method: 'post',
    path: '/webhooks',
    tag: TAG,
    summary: 'Create an endpoint',
    description: 'It gets events from now on. The answer is the only one that shows its signing secret.',
    permission: MANAGE_WEBHOOKS,
    body: endpointDraft,
    success: {
      status: 201,
      description: 'The endpoint and its signing secret.',
      body: z.object({ endpoint, secret: signingSecret.optional() }),
      headers: { ...ETAG, Location: 'Path of the endpoint.' },
    },
    problems: ['too_many_endpoints', 'idempotency_conflict', 'not_acknowledged', 'unreadable'],
    idempotent: true,
    async handle({ organization, body, idempotencyKey }) {
      const created = await endpoints.create(organization, body, { idempotencyKey })
      const { secret, etag } = created
      return {
        body: { endpoint: created.endpoint, ...(secret === undefined ? {} : { secret }) },
        headers: {
          ...(etag === undefined ? {} : { etag }),
          location: `/organizations/${organization}/webhooks/${created.endpoint.endpointId}`,
          ...replayed(created.replayed).headers,
        },
      }
    },
  })
}

function listRoute(endpoints: EndpointService, cursors: Cursors): Route {
  return route({
    id: 'listEndpoints',
    method: 'get',
    path: '/webhooks',
    tag: TAG,
    summary: 'List the endpoints',
    description: 'By name.',
    permission: MANAGE_WEBHOOKS,
    query: pageQuery,
    success: {
      status: 200,
      description: 'A page of endpoints.',
      body: z.object({ endpoints: z.array(endpoint), cursor: nextCursor }),
    },
    problems: ['cursor_expired'],
    async handle({ organization, query }) {
      const list = ['endpoints', organization]
      return { body: await cursors.bodyOf(list, query, (page) => endpoints.list(organization, page)) }
    },
  })
}

function getRoute(endpoints: EndpointService): Route {
  return route({
    id: 'getEndpoint',
    method: 'get',
    path: '/webhooks/{endpointId}',
    tag: TAG,
    summary: 'Read an endpoint',
    permission: MANAGE_WEBHOOKS,
    params,
    success: { status: 200, description: 'The endpoint.', body: one, headers: ETAG },
    problems: ['unreadable'],
    async handle({ organization, params: { endpointId } }) {
      const found = await endpoints.get({ organization, endpointId })
      return { body: { endpoint: found.endpoint }, headers: { etag: found.etag } }
    },
  })
}

function changeRoute(endpoints: EndpointService): Route {
  return route({
    id: 'changeEndpoint',
    method: 'patch',
    path: '/webhooks/{endpointId}',
    tag: TAG,
    summary: 'Change an endpoint',
    description:
      'Only the fields that are sent; `eventTypes` replaces the whole list, and null takes the description away. In force when it is answered. An attempt that is already on the wire runs out.',
    permission: MANAGE_WEBHOOKS,
    params,
    body: endpointChange,
    success: { status: 200, description: 'The endpoint as it is now.', body: one, headers: ETAG },
    problems: ['managed_elsewhere', 'precondition_failed', 'not_acknowledged', 'unreadable'],
    conditional: true,
    async handle({ organization, params: { endpointId }, body, ifMatch }) {
      const changed = await endpoints.change({ organization, endpointId }, body, { ifMatch })
      return { body: { endpoint: changed.endpoint }, headers: { etag: changed.etag } }
    },
  })
}

function removeRoute(endpoints: EndpointService): Route {
  return route({
    id: 'deleteEndpoint',
    method: 'delete',
    path: '/webhooks/{endpointId}',
    tag: TAG,
    summary: 'Delete an endpoint',
    description:
      'What is still to be delivered to it is canceled, and its log goes with it. Nothing is sent to it any more when it is answered; with 503 `not_acknowledged` it is deleted, and a controller that does not answer may still send what it had of it. An attempt that is already on the wire runs out.',
    permission: MANAGE_WEBHOOKS,
    params,
    success: { status: 204, description: 'It is gone.' },
    problems: ['precondition_failed', 'not_acknowledged'],
    conditional: true,
    async handle({ organization, params: { endpointId }, ifMatch }) {
      await endpoints.remove({ organization, endpointId }, { ifMatch })
      return {}
    },
  })
}

function pingRoute(publishing: PublishingService): Route {
  return route({
    id: 'pingEndpoint',
    method: 'post',
    path: '/webhooks/{endpointId}/ping',
    tag: TAG,
    summary: 'Send a ping',
    description: 'Queues one `webhook.ping`, verifiable like any event, whatever the endpoint subscribes to.',
    permission: PING,
    params: params,
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

function rollRoute(endpoints: EndpointService): Route {
  return route({
    id: 'rollSecret',
    method: 'post',
    path: '/webhooks/{endpointId}/secret/roll',
    tag: TAG,
    summary: 'Roll the signing secret',
    description:
      'The new secret signs the very next attempt. The old one signs beside it for 24 hours, or ends at once with `expireOld`.',
    permission: ROLL,
    params: params,
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
