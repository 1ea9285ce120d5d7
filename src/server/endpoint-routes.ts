import { z } from 'zod'
import { endpoint, endpointChange, endpointDraft, endpointId, signingSecrets } from './endpoint-resource.ts'
import type { EndpointService } from './endpoints.ts'
import { MANAGE_WEBHOOKS, PING, ROLL, type Route, replayed, route } from './http/route.ts'
import { type Cursors, nextCursor, pageQuery } from './lists.ts'
import { type PublishingService, webhookId } from './publishing.ts'

/** The routes of webhook endpoints (interface §4.2). */

const TAG = 'Webhook endpoints'
const ETAG = { ETag: 'ETag of the current endpoint, for use in If-Match.' }

const params = z.object({ endpointId })
const one = z.object({ endpoint })
const warnings = z.array(z.string()).optional().meta({
  description:
    'warnings lists what may make deliveries fail although the request is valid, such as plain HTTP to a public name. It is absent if there are none.',
})
const signingSecret = z.string().meta({
  description:
    'secret is the signing secret. Davit returns it only once: if you repeat the request with the same Idempotency-Key after it has succeeded, the response does not contain the secret.',
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
    secretRoute(endpoints),
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
    description:
      'The endpoint has been created and now receives events. Only this response contains its signing secret.',
    permission: MANAGE_WEBHOOKS,
    body: endpointDraft,
    success: {
      status: 201,
      description: 'The endpoint and its signing secret.',
      body: z.object({ endpoint, secret: signingSecret.optional(), warnings }),
      headers: { ...ETAG, Location: 'URL of the endpoint, relative to the URL of the request.' },
    },
    problems: ['too_many_endpoints', 'idempotency_conflict', 'not_acknowledged', 'unreadable'],
    idempotent: true,
    async handle({ organization, body, idempotencyKey }) {
      const {
        etag,
        replayed: isReplayed,
        ...created
      } = await endpoints.create(organization, body, {
        idempotencyKey,
      })
      return {
        body: created,
        headers: {
          ...(etag === undefined ? {} : { etag }),
          location: `webhooks/${created.endpoint.endpointId}`,
          ...replayed(isReplayed).headers,
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
    description: 'Returns the endpoints, sorted by name.',
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
      'Changes only the fields in the request. `eventTypes` replaces the whole list, and a `description` of null removes the description. The change takes effect before Davit responds, but does not affect an attempt that is already in progress.',
    permission: MANAGE_WEBHOOKS,
    params,
    body: endpointChange,
    success: {
      status: 200,
      description: 'The endpoint after the change.',
      body: z.object({ endpoint, warnings }),
      headers: ETAG,
    },
    problems: ['managed_elsewhere', 'precondition_failed', 'not_acknowledged', 'unreadable'],
    conditional: true,
    async handle({ organization, params: { endpointId }, body, ifMatch }) {
      const { etag, ...changed } = await endpoints.change({ organization, endpointId }, body, { ifMatch })
      return { body: changed, headers: { etag } }
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
      "Deletes the endpoint, its signing secrets and the record of its deliveries, and cancels its pending deliveries. After it responds, Davit starts no new delivery attempts, but an attempt that is already in progress continues. If the response is 503 `not_acknowledged`, the endpoint has been deleted, but a controller that is not responding may keep sending the endpoint's pending deliveries until it detects the deletion.",
    permission: MANAGE_WEBHOOKS,
    params,
    success: { status: 204, description: 'The endpoint has been deleted.' },
    problems: ['managed_elsewhere', 'precondition_failed', 'not_acknowledged'],
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
    description:
      'Queues one `webhook.ping` event, whatever event types the endpoint subscribes to. Receivers can verify it like any other event.',
    permission: PING,
    params: params,
    body: z.strictObject({}),
    bodyOptional: true,
    success: { status: 202, description: 'The ping has been queued.', body: z.object({ webhookId }) },
    problems: ['endpoint_disabled', 'idempotency_conflict', 'intake_full', 'unreadable'],
    idempotent: true,
    async handle({ organization, params: { endpointId }, idempotencyKey }) {
      const queued = await publishing.ping({ organization, endpointId }, { idempotencyKey })
      return { body: { webhookId: queued.eventId }, ...replayed(queued.replayed) }
    },
  })
}

function secretRoute(endpoints: EndpointService): Route {
  return route({
    id: 'readSecretFingerprints',
    method: 'get',
    path: '/webhooks/{endpointId}/secret',
    tag: TAG,
    summary: 'List the fingerprints of the signing secrets',
    description:
      'Returns the fingerprint of each active signing secret, so that you can find out which one a receiver has. It never returns a secret.',
    permission: MANAGE_WEBHOOKS,
    params,
    success: { status: 200, description: 'The fingerprints.', body: z.object({ signingSecrets }) },
    problems: ['unreadable'],
    async handle({ organization, params: { endpointId } }) {
      return { body: { signingSecrets: await endpoints.secrets({ organization, endpointId }) } }
    },
  })
}

function rollRoute(endpoints: EndpointService): Route {
  return route({
    id: 'rollSecret',
    method: 'post',
    path: '/webhooks/{endpointId}/secret/roll',
    tag: TAG,
    summary: 'Rotate the signing secret',
    description:
      'Davit signs with the new secret from the next attempt on. It also signs with the old secrets for 24 hours, unless `expireOld` makes them expire immediately.',
    permission: ROLL,
    params: params,
    body: z.strictObject({
      expireOld: z.boolean().default(false).meta({
        description: 'expireOld specifies whether the old secrets expire immediately. The default is false.',
      }),
    }),
    bodyOptional: true,
    success: {
      status: 200,
      description: 'The new signing secret.',
      body: z.object({
        secret: signingSecret.optional(),
        overlapSeconds: z.int().meta({
          description:
            'overlapSeconds is the number of seconds for which Davit also signs with the old secrets.',
          example: 86_400,
        }),
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
