import type { EventTypeCatalogue } from '../../ports/facade.ts'
import type { EventTypeStore } from '../catalogue.ts'

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
