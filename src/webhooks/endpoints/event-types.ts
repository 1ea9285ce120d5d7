/** The catalogue of event types. */
import type { EventType } from '../../apis/event-type.ts'

export class EventTypeStore {
  readonly #types = new Map<string, EventType>()
  readonly #listeners: ((name: string) => void)[] = []

  /** Told of a type that came, changed or went. */
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

  /** Those of `names` that are in no entry; `*` is always known. */
  unknown(names: readonly string[]): string[] {
    return names.filter((name) => name !== '*' && !this.#types.has(name))
  }
}
