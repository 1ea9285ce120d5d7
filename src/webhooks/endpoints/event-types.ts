import { builtinEventTypes } from '../../apis/builtin-event-types.ts'
import { type EventType, eventTypes } from '../../apis/event-type.ts'
import { isApiError, type RawObject, type ResourceWriter } from '../../kube/client.ts'
import type { Logger } from '../../lib/log.ts'

/** The event types that exist, and those that Davit ships. */

export class EventTypeStore {
  readonly #types = new Map<string, EventType>()
  readonly #listeners: ((name: string) => void)[] = []

  /** Called when a type is added, changed or removed. */
  listen(listener: (name: string) => void): void {
    this.#listeners.push(listener)
  }

  get(name: string): EventType | undefined {
    return this.#types.get(name)
  }

  all(): EventType[] {
    return [...this.#types.values()]
  }

  apply(type: EventType): void {
    this.#types.set(type.metadata.name, type)
    for (const listener of this.#listeners) listener(type.metadata.name)
  }

  remove(type: EventType): void {
    this.#types.delete(type.metadata.name)
    for (const listener of this.#listeners) listener(type.metadata.name)
  }

  /** Those of `names` that do not exist; `*` always does. */
  unknown(names: readonly string[]): string[] {
    return names.filter((name) => name !== '*' && !this.#types.has(name))
  }
}

/** Creates missing types and leaves existing ones as they are. A failure is logged; the next start tries again. */
export async function ensureBuiltinEventTypes(
  { api, log }: { api: ResourceWriter; log: Logger },
  omitted: readonly string[],
  isKnown: (name: string) => boolean,
): Promise<void> {
  const isWanted = (name: string) => !omitted.includes(name) && !isKnown(name)
  for (const type of builtinEventTypes.filter(({ metadata }) => isWanted(metadata.name))) {
    try {
      await api.create(eventTypes, { ...type, metadata: { ...type.metadata } } satisfies RawObject)
      log.info('event_type_created', 'created built-in event type', { name: type.metadata.name })
    } catch (error) {
      if (isApiError(error, 'AlreadyExists')) continue
      const fields = { name: type.metadata.name, error }
      log.warn('event_type_create_failed', 'failed to create built-in event type', fields)
    }
  }
}
