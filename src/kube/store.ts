import type { RawObject } from './client.ts'

/** Where an informer puts objects: a cache that holds them, or a stream that only passes them on. */
export interface Store<T> {
  /** Whether this is new and so worth decoding; the other methods are only called with news. */
  isNews(identity: ObjectIdentity, source: Source): boolean
  apply(identity: ObjectIdentity, object: T): void
  /** From an event. */
  delete(identity: ObjectIdentity): void
  /** A list starts; events may come in between. An unfinished list is dropped. */
  beginList(): void
  /**
   * The list has ended, complete or (as requested) early. Works in steps, so that the caller can yield to the event
   * loop.
   */
  endList(listVersion: number, complete: boolean): Iterable<void>
  abandonList(): void
  /** The watch, which is ordered, has delivered everything up to this version. */
  seenUpTo(version: number): void
  /** The API server's store was restored from a backup: everything it says is news. */
  age(): void
}

/** Must not throw. */
type StoreListener<T> = {
  applied(key: string, object: T, previous?: T): void
  /** @param version of the deletion, if it came by an event */
  deleted(key: string, last: T, version?: number): void
}

export type Source = 'list' | 'event'

/** `key` is "namespace/name", or the name of a cluster-scoped object. */
export type ObjectIdentity = { key: string; uid: string; version: number }

/** For a version that is not a number; below all others. */
export const UNKNOWN_VERSION = 0

export function identityOf(raw: RawObject): ObjectIdentity {
  const { namespace, name, uid, resourceVersion } = raw.metadata
  return {
    key: namespace === undefined ? name : `${namespace}/${name}`,
    uid: uid ?? '',
    version: versionOf(resourceVersion),
  }
}

/** Versions compare as integers: true of every API server, and promised by the API since 1.35. */
export function versionOf(resourceVersion: string | undefined): number {
  const version = Number(resourceVersion)
  return Number.isSafeInteger(version) && version > 0 ? version : UNKNOWN_VERSION
}

type Entry<T> = { object: T; uid: string; version: number }

/**
 * Objects by "namespace/name". Never goes back to an older version; a recreated object (same name, new UID) is
 * reported as deleted, then applied.
 */
export class CachingStore<T> implements Store<T> {
  readonly #entries = new Map<string, Entry<T>>()
  readonly #listener: StoreListener<T>
  /**
   * A complete list had all objects as of this version: older events are no news, and an object that is not held
   * was deleted by then.
   */
  #floor = 0
  /** Versions of deletions during a list, which may still contain those objects. */
  #deletedMeanwhile: Map<string, number> | undefined
  #listed: Set<string> | undefined

  constructor(listener: StoreListener<T>) {
    this.#listener = listener
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

/** Must not throw. */
export type StreamListener<T> = {
  applied(key: string, object: T): void
  gone(key: string): void
}

/**
 * Passes objects on and keeps none: for an append-only log. Each version is passed on once, however often the list
 * is read. A list is passed on at its end, in the order of versions, since the API server sorts it by name. A
 * deletion is reported by key only: the object was read when it was added, and parsing it again would cost as much.
 */
/** What keeps a list in memory, which is passed on at its end, from holding all that its objects hold. */
export type ListBudget<T> = {
  maxBytes: number
  /** What `lighten` would free. */
  bytesOf(object: T): number
  lighten(object: T): T
}

export class StreamingStore<T> implements Store<T> {
  readonly #listener: StreamListener<T>
  readonly #budget: ListBudget<T> | undefined
  /** Everything up to this version was passed on. */
  #floor = 0
  /** Versions above the floor that were passed on: the floor rises only at a list's end and with the watch. */
  #passed = new Set<number>()
  /** Objects of the current list. */
  #listed: { key: string; version: number; object: T }[] | undefined
  /** Of the objects of the current list that are not lightened. */
  #listedBytes = 0
  #lightened = 0

  constructor(listener: StreamListener<T>, budget?: ListBudget<T>) {
    this.#listener = listener
    this.#budget = budget
  }

  isNews({ version }: ObjectIdentity, _source: Source): boolean {
    return version === UNKNOWN_VERSION || (version > this.#floor && !this.#passed.has(version))
  }

  apply({ key, version }: ObjectIdentity, object: T): void {
    this.#passed.add(version)
    if (!this.#listed) {
      this.#listener.applied(key, object)
      return
    }
    this.#listed.push({ key, version, object })
    if (this.#budget) this.#lighten(this.#budget, object)
  }

  /** The first ones of the list, which are the last to be passed on where a list goes backwards. */
  #lighten({ maxBytes, bytesOf, lighten }: ListBudget<T>, added: T): void {
    this.#listedBytes += bytesOf(added)
    for (; this.#listedBytes > maxBytes; this.#lightened += 1) {
      const first = this.#listed?.[this.#lightened]
      if (!first) return
      this.#listedBytes -= bytesOf(first.object)
      first.object = lighten(first.object)
    }
  }

  delete({ key }: ObjectIdentity): void {
    this.#listener.gone(key)
  }

  beginList(): void {
    this.abandonList()
    this.#listed = []
    this.#listedBytes = 0
    this.#lightened = 0
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
