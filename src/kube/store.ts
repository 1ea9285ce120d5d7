import {
  type ObjectIdentity,
  type Source,
  type Store,
  type StoreListener,
  UNKNOWN_VERSION,
} from './object-store.ts'

type Entry<T> = { object: T; uid: string; version: number }

/**
 * Objects by "namespace/name". Never goes back to an older version of an object, and tells of a recreated one
 * (same name, another UID) as deleted, then applied.
 */
export class CachingStore<T> implements Store<T> {
  readonly #entries = new Map<string, Entry<T>>()
  readonly #listener: StoreListener<T>
  /**
   * All objects are known as of this version, from a complete list: an event of that age or older says
   * nothing new, and an object that is not held was gone by then.
   */
  #floor = 0
  /** Versions at which events deleted objects while a list was being read, which may still show them. */
  #deletedMeanwhile: Map<string, number> | undefined
  #listed: Set<string> | undefined

  constructor(told: StoreListener<T>) {
    this.#listener = told
  }

  get size(): number {
    return this.#entries.size
  }

  get(key: string): T | undefined {
    return this.#entries.get(key)?.object
  }

  *values(): IterableIterator<T> {
    for (const { object } of this.#entries.values()) yield object
  }

  isNews({ key, version }: ObjectIdentity, source: Source): boolean {
    if (source === 'list') this.#listed?.add(key)
    if (version === UNKNOWN_VERSION) return true
    const stale = source === 'event' ? this.#floor : (this.#deletedMeanwhile?.get(key) ?? 0)
    return version > stale && version > (this.#entries.get(key)?.version ?? 0)
  }

  apply({ key, uid, version }: ObjectIdentity, object: T): void {
    const held = this.#entries.get(key)
    this.#entries.set(key, { object, uid, version })
    if (held && held.uid !== uid) {
      this.#listener.deleted(key, held.object)
      this.#listener.applied(key, object)
    } else this.#listener.applied(key, object, held?.object)
  }

  delete({ key, version }: ObjectIdentity): void {
    this.#deletedMeanwhile?.set(key, version)
    this.#remove(key, version)
  }

  beginList(): void {
    this.#deletedMeanwhile = new Map()
    this.#listed = new Set()
  }

  *endList(listVersion: number, complete: boolean): IterableIterator<void> {
    const listed = this.#listed
    this.#listed = undefined
    if (complete && listed) {
      for (const [key, held] of this.#entries) {
        if (held.version <= listVersion && !listed.has(key)) this.#remove(key)
        yield
      }
      this.#floor = listVersion
    }
    this.#deletedMeanwhile = undefined
  }

  abandonList(): void {
    this.#listed = undefined
    this.#deletedMeanwhile = undefined
  }

  seenUpTo(): void {}

  age(): void {
    this.#floor = 0
    for (const entry of this.#entries.values()) entry.version = 0
  }

  #remove(key: string, version?: number): void {
    const held = this.#entries.get(key)
    if (!held) return
    this.#entries.delete(key)
    this.#listener.deleted(key, held.object, version)
  }
}
