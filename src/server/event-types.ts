/** The catalogue of event types (interface §4.2, §6). */
import { z } from 'zod'
import type { Cursors } from './cursor.ts'
import type { EventTypeCatalogue } from './http/facade.ts'
import { MANAGE_WEBHOOKS } from './http/permission.ts'
import { type Route, route } from './http/route.ts'
import { cursor, limit, nextCursor } from './list-query.ts'

const eventType = z
  .object({
    name: z.string().meta({ example: 'environment.started' }),
    description: z.string().meta({ description: 'What happened when such an event is published.' }),
    schema: z
      .record(z.string(), z.unknown())
      .optional()
      .meta({ description: 'JSON Schema 2020-12 of `data`; anything goes where absent.' }),
    example: z.unknown().optional().meta({ description: 'An example of `data`.' }),
    deprecated: z.boolean().meta({ description: 'Still delivered, but not to be subscribed to any more.' }),
  })
  .meta({ id: 'EventType', description: 'A type of event that can be published and subscribed to.' })

export function eventTypeRoutes(catalogue: EventTypeCatalogue, cursors: Cursors): Route[] {
  return [
    route({
      id: 'listEventTypes',
      method: 'get',
      path: '/webhooks/event-types',
      tag: 'Events',
      summary: 'List the event types',
      description: 'The catalogue as it is now, by name.',
      permission: MANAGE_WEBHOOKS,
      query: z.strictObject({ limit, cursor }),
      success: {
        status: 200,
        description: 'A page of event types.',
        body: z.object({ eventTypes: z.array(eventType), cursor: nextCursor }),
      },
      problems: ['cursor_expired'],
      async handle({ query }) {
        const list = ['event-types']
        const after = query.cursor === undefined ? '' : cursors.read(list, query.cursor)
        const rest = catalogue
          .all()
          .filter(({ name }) => name > after)
          .sort((a, b) => (a.name < b.name ? -1 : 1))
        const eventTypes = rest.slice(0, query.limit)
        const last = rest.length > query.limit ? eventTypes.at(-1) : undefined
        return { body: { eventTypes, cursor: last ? cursors.make(list, last.name) : null } }
      },
    }),
  ]
}
