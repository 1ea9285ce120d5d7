import type { RawObject } from './client.ts'

/** What a reflector does with objects: hold them (ObjectCache), or only pass them on (ObjectFeed). */
export interface Store<T> {
  readonly size: number
  get(key: string): T | undefined
  values(): IterableIterator<T>
  /** Whether this tells something new, so that it is worth decoding; the rest is called only with news. */
  isNews(identity: ObjectIdentity, source: Source): boolean
  apply(identity: ObjectIdentity, object: T): void
  /** An event said so. */
  delete(identity: ObjectIdentity): void
  /** A list begins. Events may go on meanwhile. One that was begun before is forgotten. */
  beginList(): void
  /**
   * The list has ended, complete or (by the caller's wish) early. Does its work in steps, so that the event
   * loop can have turns between them.
   */
  endList(listVersion: number, complete: boolean): Iterable<void>
  /** The list could not be read to its end. */
  abandonList(): void
  /** The watch, which is in order, has told everything up to this version. */
  seenUpTo(version: number): void
  /** The API server's store is an older one, restored from a backup: whatever it says is news. */
  age(): void
}

/** Where a store reports. Must not throw. */
type StoreListener<T> = {
  applied(key: string, object: T, previous?: T): void
  /** @param version at which, where an event said so */
  deleted(key: string, last: T, version?: number): void
}

export type Source = 'list' | 'event'

/** `key` is "namespace/name", or the name of a cluster-scoped object. */
export type ObjectIdentity = { key: string; uid: string; version: number }

/** A version that is no number; all others are above. */
export const UNKNOWN_VERSION = 0

export function identityOf(raw: RawObject): ObjectIdentity {
  const { namespace, name, uid, resourceVersion } = raw.metadata
  return {
    key: namespace === undefined ? name : `${namespace}/${name}`,
    uid: uid ?? '',
    version: versionOf(resourceVersion),
  }
}

/** Versions compare as integers: every API server has it so, and since 1.35 the API promises it. */
export function versionOf(resourceVersion: string | undefined): number {
  const version = Number(resourceVersion)
  return Number.isSafeInteger(version) && version > 0 ? version : UNKNOWN_VERSION
}

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
