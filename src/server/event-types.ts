import { z } from 'zod'
import type { EventTypeStore } from '../webhooks/endpoints/event-types.ts'
import type { EventTypeCatalogue } from './http/auth.ts'
import { MANAGE_WEBHOOKS, type Route, route } from './http/route.ts'
import { type Cursors, cursor, limit, nextCursor } from './schemas.ts'

/** The catalogue as REST shows it. */
export function createEventTypeCatalogue(catalogue: Pick<EventTypeStore, 'all'>): EventTypeCatalogue {
  return {
    all: () =>
      catalogue.all().map(({ metadata, spec }) => {
        const { description, schema, example, deprecated } = spec
        return { name: metadata.name, description, schema, example, deprecated }
      }),
  }
}

/** The catalogue of event types (interface §4.2, §6). */

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
