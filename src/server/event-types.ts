import { z } from 'zod'
import { type EventType, typeNameOf } from '../apis/event-type.ts'
import type { EventTypeStore } from '../webhooks/endpoints/event-types.ts'
import { MANAGE_WEBHOOKS, type Route, route } from './http/route.ts'
import { type Cursors, nextCursor, pageOf, pageQuery } from './lists.ts'

/** The catalogue of event types (interface §4.2, §6). */

const eventType = z
  .object({
    name: z.string().meta({ example: 'environment.started' }),
    description: z.string().meta({ description: 'description explains what an event of this type reports.' }),
    schema: z.record(z.string(), z.unknown()).optional().meta({
      description: 'schema is the JSON Schema (2020-12) of `data`. If absent, any JSON is accepted.',
    }),
    example: z.unknown().optional().meta({ description: 'example is an example of `data`.' }),
    deprecated: z.boolean().meta({
      description:
        'deprecated is true if new subscriptions to this type are discouraged. Events of the type are still delivered.',
    }),
  })
  .meta({ id: 'EventType', description: 'A type of event that organizations can publish and subscribe to.' })

export function eventTypeRoutes(catalogue: Pick<EventTypeStore, 'all'>, cursors: Cursors): Route[] {
  return [
    route({
      id: 'listEventTypes',
      method: 'get',
      path: '/webhooks/event-types',
      tag: 'Events',
      summary: 'List the event types',
      description: 'Returns the current event types, sorted by name.',
      permission: MANAGE_WEBHOOKS,
      query: pageQuery,
      success: {
        status: 200,
        description: 'A page of event types.',
        body: z.object({ eventTypes: z.array(eventType), cursor: nextCursor }),
      },
      problems: ['cursor_expired'],
      async handle({ query }) {
        const body = await cursors.bodyOf(['event-types'], query, (wanted) => {
          const { page, ...next } = pageOf(catalogue.all(), typeNameOf, wanted)
          return { eventTypes: page.map(entryOf), ...next }
        })
        return { body }
      },
    }),
  ]
}

function entryOf(object: EventType) {
  const { description, schema, example, deprecated } = object.spec
  return { name: typeNameOf(object), description, schema, example, deprecated }
}
