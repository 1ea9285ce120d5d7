import { type ObjectIdentity, type Source, type Store, UNKNOWN_VERSION } from './object-store.ts'

/** Where a feed reports. Must not throw. */
export type StreamListener<T> = {
  applied(key: string, object: T): void
  gone(key: string): void
}

/**
 * Passes objects on and keeps none: for a log to which objects are only ever appended. Each version is passed
 * on once, however often the list is read. A list is passed on at its end and in the order of versions, since the API
 * server sorts it by name. A deletion is told as far as events tell it, and by its key alone: the object that it carries was
 * read when it came, and to read it again would cost as much as that.
 */
export class StreamingStore<T> implements Store<T> {
  readonly size = 0
  readonly #listener: StreamListener<T>
  /** Everything up to this version was passed on. */
  #floor = 0
  /** Versions above the floor that were passed on: it rises only with a list's end and the watch's progress. */
  #passed = new Set<number>()
  /** What the list under way has brought. */
  #listed: { key: string; version: number; object: T }[] | undefined

  constructor(told: StreamListener<T>) {
    this.#listener = told
  }

  get(): undefined {
    return undefined
  }

  *values(): IterableIterator<T> {}

  isNews({ version }: ObjectIdentity, _source: Source): boolean {
    return version === UNKNOWN_VERSION || (version > this.#floor && !this.#passed.has(version))
  }

  apply({ key, version }: ObjectIdentity, object: T): void {
    this.#passed.add(version)
    if (this.#listed) this.#listed.push({ key, version, object })
    else this.#listener.applied(key, object)
  }

  delete({ key }: ObjectIdentity): void {
    this.#listener.gone(key)
  }

  beginList(): void {
    this.abandonList()
    this.#listed = []
  }

  abandonList(): void {
    for (const { version } of this.#listed ?? []) this.#passed.delete(version)
    this.#listed = undefined
  }

  *endList(listVersion: number): IterableIterator<void> {
    const listed = this.#listed ?? []
    this.#listed = undefined
    for (const { key, object } of listed.sort((a, b) => a.version - b.version))
      yield this.#listener.applied(key, object)
    this.seenUpTo(listVersion)
  }

  seenUpTo(version: number): void {
    this.#floor = Math.max(this.#floor, version)
    if (this.#passed.size > 0) this.#passed = new Set()
  }

  age(): void {
    this.#floor = 0
    this.#passed = new Set()
  }
}
