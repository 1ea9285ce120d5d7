/** What a reflector is told and given. */
import type { ResourceType } from '../apis/meta.ts'
import type { RuntimeMetrics } from '../lib/metrics.ts'
import type { Clock, Random } from '../lib/ports-clock.ts'
import type { Logger } from '../lib/ports-log.ts'
import type { ListQuery, RawObject, ResourceReader, WatchSource } from './client.ts'
import type { Store } from './object-store.ts'
import type { GapDetection } from './silence.ts'

export type InformerOptions<T> = {
  type: ResourceType
  query?: ListQuery
  /** For objects whose size nobody knows before: pages that are answered quickly grow up to so many. */
  largestPage?: number
  /**
   * The slim form that is held. Undefined or a throw: the object is counted, logged once and skipped.
   * @param bytes of the object as JSON, where a watch has told it
   */
  decode(raw: RawObject, bytes?: number): T | undefined
  /** May throw: that is logged and counted, and keeps nothing from going on. */
  handler: InformerHandler<T>
  /** Holds nothing and only passes on, each version of an object once: for an append-only log. */
  streaming?: boolean
  /** Holds the objects in its own way; the handler is then told nothing. */
  store?: Store<T>
  /** Told that the store was restored from a backup, before anything of what it has now is handed on. */
  onStoreRestored?(): void
  /**
   * Told, before they are handed on, that a list shows objects which are new although nothing was heard for longer than `afterMs`:
   * others may have been made and deleted meanwhile.
   */
  gapDetection?: GapDetection
  /** May end the list at a page; deletions are then not found by comparison. */
  stopListing?(page: readonly RawObject[]): boolean
  /** A full list is compared so often (and a bit), in case a watch missed something. Default 30 min; never for a feed. */
  compareEveryMs?: number
}

export type InformerHandler<T> = {
  /** The object is there, new or changed; `previous` is what was held of the same incarnation. */
  applied(object: T, previous?: T): void
  /** It is gone; `last` is what was known of it. @param version at which, where an event said so */
  deleted?(last: T, version?: number): void
  /** The same of a feed, which tells of what has gone its key alone. */
  gone?(key: string): void
}

export type InformerDependencies = {
  api: ResourceReader & WatchSource
  clock: Clock
  random: Random
  log: Logger
  metrics: RuntimeMetrics
}
