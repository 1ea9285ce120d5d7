import { z } from 'zod'
import { EVENT_TYPE, MAX_EVENT_TYPE } from '../apis/ids.ts'
import { deliveryState } from '../apis/webhook-delivery.ts'
import type { OpenDeliveryIndex } from './delivery-index/delivery-index.ts'
import { delivery, deliveryId, deliveryWithAttempts } from './delivery-resource.ts'
import { endpointId } from './endpoint-resource.ts'
import type { EndpointService } from './endpoints.ts'
import { Problem } from './http/problems.ts'
import { MANAGE_WEBHOOKS, REDELIVER, type Route, replayed, route } from './http/route.ts'
import { type Cursors, nextCursor, type PageQuery, pageQuery } from './lists.ts'
import { type PublishingService, webhookId } from './publishing.ts'

/** Routes of an endpoint's deliveries (interface §2.5, §4.2). delivery-resource.ts says what a delivery looks like. */

const TAG = 'Deliveries'

const ofEndpoint = z.object({ endpointId })
const params = z.object({ endpointId, deliveryId })

export function deliveryRoutes(
  endpoints: EndpointService,
  deliveries: OpenDeliveryIndex,
  publishing: PublishingService,
  cursors: Cursors,
): Route[] {
  return [
    listRoute(endpoints, deliveries, cursors),
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
    query: pageQuery.extend({
      status: deliveryState.optional().meta({
        description: 'status selects the deliveries with this status. If omitted, all are returned.',
      }),
      eventType: z
        .string()
        .max(MAX_EVENT_TYPE)
        .regex(EVENT_TYPE, 'must be an event type such as environment.started')
        .optional()
        .meta({
          description: 'eventType selects the deliveries of this event type. If omitted, all are returned.',
        }),
    }),
    success: {
      status: 200,
      description: 'A page of deliveries.',
      body: z.object({ deliveries: z.array(delivery), cursor: nextCursor }),
    },
    problems: ['cursor_expired'],
    async handle({ organization, params: { endpointId }, query }) {
      const { status, eventType, ...paging } = query
      const endpoint = await endpoints.identify({ organization, endpointId })
      const list = ['deliveries', organization, endpoint.uid, status ?? '', eventType ?? '']
      const read = (page: PageQuery) => deliveries.list(endpoint, { ...page, status, eventType })
      return { body: await cursors.bodyOf(list, paging, read) }
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
    success: {
      status: 200,
      description: 'The delivery.',
      body: z.object({ delivery: deliveryWithAttempts }),
    },
    async handle({ organization, params: { endpointId, deliveryId } }) {
      const endpoint = await endpoints.identify({ organization, endpointId })
      const found = await deliveries.read(endpoint, deliveryId)
      if (!found) throw new Problem('not_found')
      return { body: { delivery: { ...found, attempts: [...found.attempts] } } }
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
      'Sends the type and the data of the original event as a new delivery with its own ID. Receivers see a new event.',
    permission: REDELIVER,
    params,
    body: z.strictObject({}),
    bodyOptional: true,
    success: { status: 202, description: 'The new delivery is queued.', body: z.object({ webhookId }) },
    problems: ['endpoint_disabled', 'idempotency_conflict', 'intake_full', 'unreadable'],
    idempotent: true,
    async handle({ organization, params: { endpointId, deliveryId }, idempotencyKey }) {
      const queued = await publishing.redeliver({ organization, endpointId, deliveryId }, { idempotencyKey })
      return { body: { webhookId: queued.eventId }, ...replayed(queued.replayed) }
    },
  })
}
