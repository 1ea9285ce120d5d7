import { z } from 'zod'
import { ENDPOINT_PREFIX } from '../apis/ids.ts'
import { deliveryState } from '../apis/webhook-delivery.ts'
import type { OpenDeliveryIndex } from './delivery-index/delivery-index.ts'
import {
  BYTES_OF_BODY,
  delivery,
  deliveryId,
  deliveryWithAttempts,
  eventTypeFilter,
  headersOf,
} from './delivery-resource.ts'
import { endpointId } from './endpoint-resource.ts'
import type { EndpointService } from './endpoints.ts'
import { Problem } from './http/problems.ts'
import { MANAGE_WEBHOOKS, REDELIVER, type Route, replayed, route } from './http/route.ts'
import { type Cursors, nextCursor, type PageQuery, pageQuery, timeQuery } from './lists.ts'
import { type PublishingService, webhookId } from './publishing.ts'

/** Routes of deliveries (interface §2.5, §4.2). delivery-resource.ts says what a delivery looks like. */

const TAG = 'Deliveries'

const ofEndpoint = z.object({ endpointId })
const params = z.object({ endpointId, deliveryId })

/** Of every list of deliveries. */
const filters = pageQuery.extend({
  status: deliveryState.optional().meta({
    description: 'status selects the deliveries with this status. If omitted, all are returned.',
  }),
  eventType: eventTypeFilter.meta({
    description: 'eventType selects the deliveries of this event type. If omitted, all are returned.',
  }),
  ...timeQuery,
})

export function deliveryRoutes(
  endpoints: EndpointService,
  deliveries: OpenDeliveryIndex,
  publishing: PublishingService,
  cursors: Cursors,
): Route[] {
  return [
    listRoute(endpoints, deliveries, cursors),
    listAllRoute(endpoints, deliveries, cursors),
    getRoute(endpoints, deliveries),
    redeliverRoute(publishing),
  ]
}

function listRoute(endpoints: EndpointService, deliveries: OpenDeliveryIndex, cursors: Cursors): Route {
  return route({
    id: 'listDeliveries',
    method: 'get',
    path: '/webhooks/{endpointId}/deliveries',
    tag: TAG,
    summary: 'List the deliveries of an endpoint',
    description: 'Returns the deliveries of the endpoint, newest first.',
    permission: MANAGE_WEBHOOKS,
    params: ofEndpoint,
    query: filters,
    success: {
      status: 200,
      description: 'A page of deliveries.',
      body: z.object({ deliveries: z.array(delivery), cursor: nextCursor }),
    },
    problems: ['cursor_expired'],
    async handle({ organization, params: { endpointId }, query }) {
      const { limit, cursor, ...filters } = query
      const endpoint = await endpoints.identify({ organization, endpointId })
      const list = ['deliveries', organization, endpoint.uid, JSON.stringify(filters)]
      const read = (page: PageQuery) => deliveries.list([endpoint], { ...page, ...filters })
      return { body: await cursors.bodyOf(list, { limit, cursor }, read) }
    },
  })
}

function listAllRoute(endpoints: EndpointService, deliveries: OpenDeliveryIndex, cursors: Cursors): Route {
  return route({
    id: 'listAllDeliveries',
    method: 'get',
    path: '/deliveries',
    tag: TAG,
    summary: 'List the deliveries of all endpoints',
    description: 'Returns the deliveries of all endpoints of the organization, newest first.',
    permission: MANAGE_WEBHOOKS,
    query: filters.extend({
      endpointId: endpointId.optional().meta({
        description: 'endpointId selects the deliveries of this endpoint. If omitted, all are returned.',
      }),
      eventId: deliveryId.optional().meta({
        description: 'eventId selects the deliveries of this event. If omitted, all are returned.',
      }),
    }),
    success: {
      status: 200,
      description: 'A page of deliveries.',
      body: z.object({ deliveries: z.array(delivery), cursor: nextCursor }),
    },
    problems: ['cursor_expired'],
    async handle({ organization, query }) {
      const { limit, cursor, endpointId: wanted, ...filters } = query
      const all = await endpoints.identifyAll(organization)
      const selected = all.filter(({ name }) => wanted === undefined || ENDPOINT_PREFIX + name === wanted)
      const list = ['all-deliveries', organization, wanted ?? '', JSON.stringify(filters)]
      const read = (page: PageQuery) => deliveries.list(selected, { ...page, ...filters })
      return { body: await cursors.bodyOf(list, { limit, cursor }, read) }
    },
  })
}

function getRoute(endpoints: EndpointService, deliveries: OpenDeliveryIndex): Route {
  return route({
    id: 'getDelivery',
    method: 'get',
    path: '/webhooks/{endpointId}/deliveries/{deliveryId}',
    tag: TAG,
    summary: 'Read a delivery with its attempts',
    permission: MANAGE_WEBHOOKS,
    params,
    query: z.strictObject({
      include: z.enum(['request']).optional().meta({
        description: 'include adds the headers and the body of the request that the receiver gets.',
      }),
    }),
    success: {
      status: 200,
      description: 'The delivery.',
      body: z.object({ delivery: deliveryWithAttempts }),
    },
    answerBytes: ({ include }) => (include === undefined ? 0 : BYTES_OF_BODY),
    async handle({ organization, params: { endpointId, deliveryId }, query: { include } }) {
      const endpoint = await endpoints.identify({ organization, endpointId })
      const found = await deliveries.read(endpoint, deliveryId)
      if (!found) throw new Problem('not_found')
      if (include === undefined) return { body: { delivery: found } }
      const body = await deliveries.body(endpoint, deliveryId)
      const headers = headersOf(deliveryId, found.attempts.at(-1)?.at)
      return {
        body: { delivery: { ...found, request: { headers, ...(body === undefined ? {} : { body }) } } },
      }
    },
  })
}

function redeliverRoute(publishing: PublishingService): Route {
  return route({
    id: 'redeliver',
    method: 'post',
    path: '/webhooks/{endpointId}/deliveries/{deliveryId}/redeliver',
    tag: TAG,
    summary: 'Redeliver an event',
    description:
      'Sends the type and data of the original event again, in a new delivery with a new ID. Receivers see it as a new event.',
    permission: REDELIVER,
    params,
    body: z.strictObject({}),
    bodyOptional: true,
    success: { status: 202, description: 'The new delivery has been queued.', body: z.object({ webhookId }) },
    problems: ['endpoint_disabled', 'idempotency_conflict', 'intake_full', 'unreadable'],
    idempotent: true,
    async handle({ organization, params: { endpointId, deliveryId }, idempotencyKey }) {
      const queued = await publishing.redeliver({ organization, endpointId, deliveryId }, { idempotencyKey })
      return { body: { webhookId: queued.eventId }, ...replayed(queued.replayed) }
    },
  })
}
