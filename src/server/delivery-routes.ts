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
    description: 'Newest first.',
    permission: MANAGE_WEBHOOKS,
    params: ofEndpoint,
    query: pageQuery.extend({
      status: deliveryState.optional().meta({ description: 'Only those with this status.' }),
      eventType: z
        .string()
        .max(MAX_EVENT_TYPE)
        .regex(EVENT_TYPE, 'must be an event type such as environment.started')
        .optional()
        .meta({ description: 'Only those of this event type.' }),
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
    summary: 'Deliver again',
    description:
      "Sends the original event's type and data as a brand-new delivery with an id of its own: to a receiver it is a new event.",
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
