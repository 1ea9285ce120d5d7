import type { EventTypeStore } from '../webhooks/endpoints/event-types.ts'
import type { EventTypeCatalogue } from './http/facade.ts'

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
