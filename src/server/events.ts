import { z } from 'zod'
import { decodeEventLine } from '../apis/delivery-segment.ts'
import { nameOfMessage } from '../apis/ids.ts'
import { UnreadableError } from '../kube/client.ts'
import type { LogStore } from '../webhooks/log/log-store.ts'
import { readEventLines } from '../webhooks/log/reader.ts'
import type { OpenDeliveryIndex } from './delivery-index/delivery-index.ts'
import type { EventQuery, IndexedEvent } from './delivery-index/event-queries.ts'
import {
  BYTES_OF_BODY,
  delivery,
  deliveryId,
  EXAMPLE_ID,
  eventId,
  eventTypeFilter,
} from './delivery-resource.ts'
import type { EndpointService } from './endpoints.ts'
import { Problem } from './http/problems.ts'
import { MANAGE_WEBHOOKS, type Route, route } from './http/route.ts'
import { type Cursors, MAX_LIMIT, nextCursor, type PageQuery, pageQuery, time, timeQuery } from './lists.ts'

/** Accepted events: found in the delivery index, and their bodies in the log, for as long as it keeps them. */

const count = (status: string) =>
  z
    .int()
    .min(0)
    .meta({ description: `${status} is the number of deliveries with this status.` })

const line = {
  eventId,
  type: z.string().meta({ description: 'type is the type of the event.', example: 'environment.started' }),
  deliveries: z.int().min(0).meta({
    description:
      'deliveries is the number of endpoints to which Davit sends the event: those that were enabled and subscribed when it was accepted.',
  }),
  statuses: z
    .object({
      pending: count('pending'),
      retrying: count('retrying'),
      succeeded: count('succeeded'),
      exhausted: count('exhausted'),
      canceled: count('canceled'),
    })
    .meta({ description: 'statuses counts the deliveries by status, including those to deleted endpoints.' }),
  redeliveryOf: z.string().optional().meta({
    description:
      'redeliveryOf is the ID of the original delivery, if this event was created by a redelivery.',
  }),
  createdAt: time('createdAt is the time at which the event was accepted.'),
}

const payload = z.string().meta({ description: 'payload is the body that receivers get, byte for byte.' })

const event = z.object({ ...line, payload }).meta({ id: 'Event', description: 'An accepted event.' })

const listedEvent = z
  .object({
    ...line,
    payload: payload.optional().meta({
      description:
        'payload is the body that receivers get, byte for byte. It is absent unless the request includes it, or if the log has just deleted it.',
    }),
  })
  .meta({ id: 'ListedEvent', description: 'An accepted event in a list.' })

type EventResource = z.output<typeof event>
type ListedEvent = z.output<typeof listedEvent>

type EventSources = {
  store: Pick<LogStore, 'read'>
  index: Pick<OpenDeliveryIndex, 'event' | 'events'>
}

/** Of the bodies on a page, which become at most twice as long as JSON, and of the segments that are read for them. */
const BODIES = { maxBytes: 1024 * 1024, maxSegments: 20 }

/** Memory for a response with all of that. */
const BYTES_OF_PAGE = 4 * BODIES.maxBytes

type EventListQuery = Omit<EventQuery, 'bodies'> & { include?: 'payload' | undefined }

export class EventService {
  readonly #sources: EventSources

  constructor(sources: EventSources) {
    this.#sources = sources
  }

  /** Newest first. @throws Problem `overloaded`; ApiError */
  async list(
    organization: string,
    { include, ...query }: EventListQuery,
  ): Promise<{ events: ListedEvent[]; next?: string }> {
    const bodies = include === 'payload' ? BODIES : undefined
    const { events, ...next } = await this.#sources.index.events(organization, { ...query, bodies })
    const payloads = bodies ? await this.#payloads(organization, events) : new Map<string, string>()
    return {
      events: events.map((one) => {
        const payload = payloads.get(one.eventId)
        return { ...resourceOf(one), ...(payload === undefined ? {} : { payload }) }
      }),
      ...next,
    }
  }

  /**
   * Undefined if there is no such event in the log, or no longer.
   * @param eventId `msg_...` @throws Problem `overloaded`; ApiError; UnreadableError
   */
  async read(organization: string, eventId: string): Promise<EventResource | undefined> {
    const { store, index } = this.#sources
    const found = await index.event(organization, eventId)
    if (!found) return undefined
    const lines = await readEventLines(store, found.segment)
    const payload = lines && payloadIn(lines, organization, eventId)
    return payload === undefined ? undefined : { ...resourceOf(found), payload }
  }

  /** Reads one segment after the other, so that one is in memory. */
  async #payloads(organization: string, events: readonly IndexedEvent[]): Promise<Map<string, string>> {
    const payloads = new Map<string, string>()
    for (const [segment, ofSegment] of Map.groupBy(events, (one) => one.segment)) {
      const lines = await readIfReadable(this.#sources.store, segment)
      for (const { eventId } of ofSegment) {
        const payload = payloadIn(lines, organization, eventId)
        if (payload !== undefined) payloads.set(eventId, payload)
      }
    }
    return payloads
  }
}

/** Nothing of a segment that is gone, or damaged. */
async function readIfReadable(store: EventSources['store'], segment: string): Promise<readonly string[]> {
  try {
    return (await readEventLines(store, segment)) ?? []
  } catch (error) {
    if (error instanceof UnreadableError) return []
    throw error
  }
}

function payloadIn(lines: readonly string[], organization: string, eventId: string): string | undefined {
  const start = `${nameOfMessage(eventId)} ${organization} `
  return decodeEventLine(lines.find((one) => one.startsWith(start)) ?? '')?.payload
}

function resourceOf({ segment: _, bodyBytes: __, ...event }: IndexedEvent): ListedEvent {
  return event
}

const KEPT =
  'The log keeps events for a day, or for less time if the organization fills its share of the log sooner.'

export type EventRouteServices = {
  events: Pick<EventService, 'list' | 'read'>
  endpoints: Pick<EndpointService, 'identifyAll'>
  deliveries: Pick<OpenDeliveryIndex, 'list'>
}

export function eventReadRoutes(services: EventRouteServices, cursors: Cursors): Route[] {
  return [listRoute(services.events, cursors), getRoute(services)]
}

function listRoute(events: Pick<EventService, 'list'>, cursors: Cursors): Route {
  return route({
    id: 'listEvents',
    method: 'get',
    path: '/events',
    tag: 'Events',
    summary: 'List the events',
    description: `Returns the accepted events, newest first, even if no endpoint was subscribed to their types. Pings and redeliveries are events as well. ${KEPT}`,
    permission: MANAGE_WEBHOOKS,
    query: pageQuery.extend({
      type: eventTypeFilter.meta({
        description: 'type selects the events of this type. If omitted, all are returned.',
      }),
      ...timeQuery,
      include: z.enum(['payload']).optional().meta({
        description:
          'include adds the payload of each event. A page then has at most 1 MiB of payloads from at most 20 segments of the log, so it may have fewer events than `limit`.',
      }),
    }),
    success: {
      status: 200,
      description: 'A page of events.',
      body: z.object({ events: z.array(listedEvent), cursor: nextCursor }),
    },
    problems: ['cursor_expired'],
    answerBytes: ({ include }) => (include === undefined ? 0 : BYTES_OF_PAGE),
    async handle({ organization, query }) {
      const { limit, cursor, ...filters } = query
      const list = ['events', organization, JSON.stringify(filters)]
      const read = (page: PageQuery) => events.list(organization, { ...page, ...filters })
      return { body: await cursors.bodyOf(list, { limit, cursor }, read) }
    },
  })
}

function getRoute({ events, endpoints, deliveries: log }: EventRouteServices): Route {
  return route({
    id: 'getEvent',
    method: 'get',
    path: '/events/{eventId}',
    tag: 'Events',
    summary: 'Read an event and its deliveries',
    description: `Returns an accepted event, even if no endpoint was subscribed to its type. ${KEPT}`,
    permission: MANAGE_WEBHOOKS,
    params: z.object({
      eventId: deliveryId.meta({
        description: 'eventId is the ID of the event and of each of its deliveries.',
        example: EXAMPLE_ID,
      }),
    }),
    success: {
      status: 200,
      description: 'The event and its deliveries.',
      body: z.object({
        event,
        deliveries: z.array(delivery).meta({
          description: `deliveries contains up to ${MAX_LIMIT} deliveries of the event, without those to deleted endpoints. The list of all deliveries has the others, with the filter eventId.`,
        }),
      }),
    },
    problems: ['unreadable'],
    answerBytes: () => BYTES_OF_BODY,
    async handle({ organization, params: { eventId } }) {
      const found = await events.read(organization, eventId)
      if (!found) throw new Problem('not_found')
      const all = await endpoints.identifyAll(organization)
      const { deliveries } = await log.list(all, { limit: MAX_LIMIT, eventId })
      return { body: { event: found, deliveries } }
    },
  })
}
