import { z } from 'zod'
import { EVENT_TYPE, MAX_EVENT_TYPE } from '../apis/ids.ts'
import { deliveryState } from '../apis/webhook-delivery.ts'
import type { ResourceReader } from '../kube/client.ts'
import type { DeliveryIndex } from './delivery-index/queries.ts'
import { readRaw } from './endpoint-resource.ts'
import type { Publishing } from './events.ts'
import type { EndpointIdentities } from './http/auth.ts'
import { Problem, RefusedError, withRefusals } from './http/problems.ts'
import { MANAGE_WEBHOOKS, REDELIVER, type Route, replayed, route } from './http/route.ts'
import {
  type Cursors,
  cursor,
  delivery,
  deliveryId,
  deliveryWithAttempts,
  endpointId,
  limit,
  nextCursor,
  webhookId,
} from './schemas.ts'

/** Asks the API server, so that an endpoint which another replica has just made or deleted is as it is. */
export function createEndpointIdentities(reader: Pick<ResourceReader, 'get'>): EndpointIdentities {
  return {
    identify: (id) =>
      withRefusals(async () => {
        const { name, uid, deletionTimestamp } = (await readRaw(reader, id)).metadata
        // From the moment that its deletion was asked for it is gone, whatever a finalizer still does.
        if (deletionTimestamp !== undefined || !uid) throw new RefusedError('not_found')
        return { namespace: id.organization, name, uid }
      }),
  }
}

/** The delivery log of an endpoint (interface §2.5, §4.2). */

const TAG = 'Deliveries'

const ofEndpoint = z.object({ endpointId })
const params = z.object({ endpointId, deliveryId })

export type DeliveryServices = {
  deliveries: DeliveryIndex
  identities: EndpointIdentities
  publishing: Publishing
  cursors: Cursors
}

export function deliveryRoutes(services: DeliveryServices): Route[] {
  return [listRoute(services), getRoute(services), redeliverRoute(services)]
}

function listRoute({ deliveries, identities, cursors }: DeliveryServices): Route {
  return route({
    id: 'listDeliveries',
    method: 'get',
    path: '/webhooks/{endpointId}/deliveries',
    tag: TAG,
    summary: 'List the deliveries of an endpoint',
    description: 'Newest first.',
    permission: MANAGE_WEBHOOKS,
    params: ofEndpoint,
    query: z.strictObject({
      limit,
      cursor,
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
      const { limit, cursor, status, eventType } = query
      const endpoint = await identities.identify({ organization, endpointId })
      const list = ['deliveries', organization, endpoint.uid, status ?? '', eventType ?? '']
      const after = cursor === undefined ? undefined : cursors.read(list, cursor)
      const page = await deliveries.list(endpoint, { limit, after, status, eventType })
      const next = page.next === undefined ? null : cursors.make(list, page.next)
      return { body: { deliveries: page.deliveries, cursor: next } }
    },
  })
}

function getRoute({ deliveries, identities }: DeliveryServices): Route {
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
      const endpoint = await identities.identify({ organization, endpointId })
      const found = await deliveries.read(endpoint, deliveryId)
      if (!found) throw new Problem('not_found')
      return { body: { delivery: { ...found, attempts: [...found.attempts] } } }
    },
  })
}

function redeliverRoute({ publishing }: DeliveryServices): Route {
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
