import { builtinEventTypes } from '../../apis/builtin-event-types.ts'
import { type EventType, eventType, eventTypes, typeNameOf } from '../../apis/event-type.ts'
import {
  findObject,
  isApiError,
  type RawObject,
  type ResourceReader,
  type ResourceWriter,
} from '../../kube/client.ts'
import type { Logger } from '../../lib/log.ts'

/** The event types that exist, and those that Davit ships. */

type Listener = (change: { object: string; type: string }) => void

export class EventTypeStore {
  /** By the name of the object. */
  readonly #objects = new Map<string, EventType>()
  /** Objects of one type, the one that counts first. */
  readonly #types = new Map<string, EventType[]>()
  readonly #listeners = new Set<Listener>()

  /**
   * Called when an object is added, changed or removed, for it and for the others of its type.
   * @returns a call that ends it
   */
  listen(listener: Listener): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  /** @param type its name in events */
  get(type: string): EventType | undefined {
    return this.#types.get(type)?.[0]
  }

  /** @param name of the object */
  object(name: string): EventType | undefined {
    return this.#objects.get(name)
  }

  objects(): Iterable<EventType> {
    return this.#objects.values()
  }

  /** One object of each type. */
  all(): EventType[] {
    return [...this.#types.values()].flatMap(([first]) => first ?? [])
  }

  apply(object: EventType): void {
    const before = this.#objects.get(object.metadata.name)
    if (before) this.#leave(before)
    this.#objects.set(object.metadata.name, object)
    const type = typeNameOf(object)
    this.#types.set(type, [...(this.#types.get(type) ?? []), object].sort(byAge))
    const types = new Set(before ? [typeNameOf(before), type] : [type])
    for (const each of types) this.#tell(object.metadata.name, each)
  }

  remove({ metadata }: EventType): void {
    const before = this.#objects.get(metadata.name)
    if (!before) return
    this.#objects.delete(metadata.name)
    this.#leave(before)
    this.#tell(metadata.name, typeNameOf(before))
  }

  /** Those of `types` that do not exist; `*` always does. */
  unknown(types: readonly string[]): string[] {
    return types.filter((type) => type !== '*' && !this.#types.has(type))
  }

  #leave(object: EventType): void {
    const type = typeNameOf(object)
    const others = (this.#types.get(type) ?? []).filter(
      ({ metadata }) => metadata.name !== object.metadata.name,
    )
    if (others.length > 0) this.#types.set(type, others)
    else this.#types.delete(type)
  }

  #tell(changed: string, type: string): void {
    const objects = new Set([changed, ...(this.#types.get(type) ?? []).map(({ metadata }) => metadata.name)])
    for (const object of objects) for (const listener of this.#listeners) listener({ object, type })
  }
}

/** The older one counts; of two from the same second, the one whose name comes first. */
function byAge({ metadata: a }: EventType, { metadata: b }: EventType): number {
  const [older = '', newer = ''] = [a.creationTimestamp, b.creationTimestamp]
  if (older !== newer) return older < newer ? -1 : 1
  return a.name < b.name ? -1 : 1
}

/** Reads the object of a type that the watch may not have returned yet. @throws ApiError */
export async function findEventType(resources: ResourceReader, type: string): Promise<EventType | undefined> {
  const selected = { fieldSelector: `spec.type=${type}`, limit: 10 }
  // An object cannot have such a name.
  const named = type.includes('_') ? undefined : await findObject(resources, eventTypes, { name: type })
  const items = await resources.list(eventTypes, selected).then(
    (list) => list.items,
    (error) => {
      // The definition of an older version has neither this selector nor spec.type.
      if (isApiError(error, 'BadRequest')) return []
      throw error
    },
  )
  const found = [...(named ? [named] : []), ...items].flatMap((raw) => eventType.safeParse(raw).data ?? [])
  return found.filter((object) => typeNameOf(object) === type).sort(byAge)[0]
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
