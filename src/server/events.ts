import { z } from 'zod'
import { nameOfMessage, timeOfName } from '../apis/ids.ts'
import type { LogStore } from '../webhooks/log/log-store.ts'
import { readSegment } from '../webhooks/log/reader.ts'
import type { LogSegment, UndeliveredEvent } from '../webhooks/log/store.ts'
import type { OpenDeliveryIndex } from './delivery-index/delivery-index.ts'
import { deliveryId, EXAMPLE_ID } from './delivery-resource.ts'
import { Problem } from './http/problems.ts'
import { MANAGE_WEBHOOKS, type Route, route } from './http/route.ts'
import { time } from './lists.ts'

/** Accepted events, read from the log for as long as it keeps them. */

const event = z
  .object({
    eventId: z.string().meta({
      description: 'eventId is the ID of the event. Receivers see it as webhook-id.',
      example: EXAMPLE_ID,
    }),
    type: z.string().meta({ description: 'type is the type of the event.', example: 'environment.started' }),
    deliveries: z.int().min(0).meta({
      description:
        'deliveries is the number of endpoints that receive the event: those that were enabled and subscribed when it was accepted.',
    }),
    redeliveryOf: z
      .string()
      .optional()
      .meta({ description: 'redeliveryOf is the ID of the delivery that this event repeats.' }),
    createdAt: time('createdAt is the time at which the event was accepted.'),
    payload: z.string().meta({ description: 'payload is the body that receivers get, byte for byte.' }),
  })
  .meta({ id: 'Event', description: 'An accepted event.' })

type EventResource = z.output<typeof event>

type EventSources = {
  store: Pick<LogStore, 'read'>
  index: Pick<OpenDeliveryIndex, 'segmentOfEvent'>
}

export class EventService {
  readonly #sources: EventSources

  constructor(sources: EventSources) {
    this.#sources = sources
  }

  /**
   * Undefined if there is no such event in the log, or no longer.
   * @param eventId `msg_...` @throws Problem `overloaded`; ApiError; UnreadableError
   */
  async read(organization: string, eventId: string): Promise<EventResource | undefined> {
    const { store, index } = this.#sources
    const name = await index.segmentOfEvent(organization, eventId)
    const stored = name === undefined ? undefined : await store.read('events', name)
    return stored && eventIn(readSegment(stored), organization, eventId)
  }
}

function eventIn(
  { deliveries, undelivered = [], bodies }: LogSegment,
  organization: string,
  eventId: string,
): EventResource | undefined {
  const id = nameOfMessage(eventId)
  const isWanted = ({ event }: UndeliveredEvent) => event.id === id && event.namespace === organization
  const found = deliveries.find(isWanted) ?? undelivered.find(isWanted)
  const payload = found && bodies[found.eventIndex]
  if (!found || payload === undefined) return undefined
  const { type, receivers, redeliveryOf } = found.event
  return {
    eventId,
    type,
    deliveries: receivers,
    ...(redeliveryOf === undefined ? {} : { redeliveryOf }),
    createdAt: new Date(timeOfName(found.event.id)).toISOString(),
    payload,
  }
}

export function eventReadRoutes(events: Pick<EventService, 'read'>): Route[] {
  return [
    route({
      id: 'getEvent',
      method: 'get',
      path: '/events/{eventId}',
      tag: 'Events',
      summary: 'Read an event',
      description:
        'Returns an accepted event, even if no endpoint subscribed to it. The log keeps events for a day, or for less if the organization fills its share of the log earlier.',
      permission: MANAGE_WEBHOOKS,
      params: z.object({
        eventId: deliveryId.meta({ description: 'eventId is the ID of the event.', example: EXAMPLE_ID }),
      }),
      success: { status: 200, description: 'The event.', body: z.object({ event }) },
      async handle({ organization, params: { eventId } }) {
        const found = await events.read(organization, eventId)
        if (!found) throw new Problem('not_found')
        return { body: { event: found } }
      },
    }),
  ]
}
