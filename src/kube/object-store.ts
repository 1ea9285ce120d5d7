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
export type StoreListener<T> = {
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
