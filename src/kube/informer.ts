import { LRUCache } from 'lru-cache'
import { NewerFormatError } from '../apis/log-format.ts'
import type { ResourceType } from '../apis/meta.ts'
import type { Logger } from '../lib/log.ts'
import type { RuntimeMetrics } from '../lib/metrics.ts'
import { type Clock, dualTimestamp, type Random, sleep } from '../lib/time.ts'
import {
  type ApiErrorKind,
  isApiError,
  type ListQuery,
  type RawObject,
  type ResourceReader,
  type WatchEvent,
  type WatchSource,
} from './client.ts'
import { listIntoStore } from './list.ts'
import {
  CachingStore,
  identityOf,
  type ListBudget,
  type ObjectIdentity,
  type Source,
  type Store,
  StreamingStore,
  versionOf,
} from './store.ts'
import {
  type GapDetection,
  GapDetector,
  type RestartDecision,
  RestartPolicy,
  type Watch,
  WatchHealth,
} from './watch-restarts.ts'

/**
 * Follows all objects of one kind: lists, watches, resumes where it left off, and lists again when the version is too
 * old, the store was restored, or something may have been missed.
 */

/** The watch was closed on purpose, to be opened again. */
class WatchReset extends Error {}

/** Why a watch restarts: of the errors, those that a read can have. */
const RESTARTS: readonly ('closed' | 'error' | ApiErrorKind)[] = [
  'closed',
  'error',
  'Gone',
  'Unavailable',
  'TooManyRequests',
  'Unauthorized',
  'Forbidden',
  'NotFound',
  'BadRequest',
]

/** Decodes objects. One that fails is counted, logged once and skipped. */
export class Decoder<T> {
  readonly #decode: (raw: RawObject, bytes?: number) => T | undefined
  readonly #resource: string
  readonly #log: Logger
  readonly #onNewerFormat: ((error: NewerFormatError) => void) | undefined
  readonly #logged = new LRUCache<string, true>({ max: 1_000 })
  /** How often an object could not be decoded. */
  poisoned = 0

  constructor(
    decode: (raw: RawObject, bytes?: number) => T | undefined,
    resource: string,
    { log, onNewerFormat }: Pick<InformerDependencies, 'log' | 'onNewerFormat'>,
  ) {
    this.#decode = decode
    this.#resource = resource
    this.#log = log
    this.#onNewerFormat = onNewerFormat
  }

  /** @param bytes of the object as JSON, if known */
  decode(raw: RawObject, identity: ObjectIdentity, bytes?: number): T | undefined {
    try {
      const object = this.#decode(raw, bytes)
      if (object === undefined) this.#skip(identity, undefined)
      return object
    } catch (error) {
      if (error instanceof NewerFormatError) this.#onNewerFormat?.(error)
      this.#skip(identity, error)
      return undefined
    }
  }

  #skip({ key, uid }: ObjectIdentity, error: unknown): void {
    this.poisoned += 1
    const which = `${key} ${uid}`
    if (this.#logged.has(which)) return
    this.#logged.set(which, true)
    this.#log.error('object_skipped', 'skipped an invalid object', {
      resource: this.#resource,
      object: key,
      uid,
      error,
    })
  }
}

export type InformerOptions<T> = {
  type: ResourceType
  query?: ListQuery
  /** For objects of unknown size: fast pages grow up to this many objects. */
  largestPage?: number
  /**
   * Reduces an object to what is held. Undefined or an exception: the object is counted, logged once and skipped.
   * @param bytes of the object as JSON, if it came by a watch
   */
  decode(raw: RawObject, bytes?: number): T | undefined
  /** May throw: that is logged and counted. */
  handler: InformerHandler<T>
  /** Only passes each version on and holds nothing: for an append-only log. */
  streaming?: boolean
  /** With `streaming`: what a list may hold until its end. Absent: everything. */
  listBudget?: ListBudget<T>
  /** A custom store; the handler is then not called. */
  store?: Store<T>
  /** Called when the API server's store was restored from a backup, before anything from it is delivered. */
  onStoreRestored?(): void
  /**
   * Called if a list has new objects after a silence longer than `afterMs`, before they are delivered: others may
   * have been created and deleted in between.
   */
  gapDetection?: GapDetection
  /** May end the list after a page; then deletions are not found by comparison. */
  stopListing?(page: readonly RawObject[]): boolean
  /**
   * Interval (plus jitter) of full comparisons, in case a watch missed something. Default 30 min; never when
   * streaming.
   */
  compareEveryMs?: number
}

export type InformerHandler<T> = {
  /** The object is new or changed; `previous` is what was held of the same incarnation. */
  applied(object: T, previous?: T): void
  /** The object is gone. @param version of the deletion, if it came by an event */
  deleted?(last: T, version?: number): void
  /** The same when streaming, by key only. */
  gone?(key: string): void
}

export type InformerDependencies = {
  api: ResourceReader & WatchSource
  clock: Clock
  random: Random
  log: Logger
  metrics: RuntimeMetrics
  /** Called for an object that only a newer version of Davit understands: this process has to end. */
  onNewerFormat?: (error: NewerFormatError) => void
}

/** Calls handlers; exceptions are logged and counted. */
export class HandlerGuard {
  readonly #resource: string
  readonly #log: Logger
  #errors = 0

  constructor(resource: string, log: Logger) {
    this.#resource = resource
    this.#log = log
  }

  get errors(): number {
    return this.#errors
  }

  run(key: string, call: () => unknown): void {
    try {
      const result = call()
      if (result instanceof Promise) result.catch((error: unknown) => this.#failed(key, error))
    } catch (error) {
      this.#failed(key, error)
    }
  }

  #failed(key: string, error: unknown): void {
    this.#errors += 1
    this.#log.error('watch_handler_failed', 'failed to handle a change', {
      resource: this.#resource,
      key,
      error,
    })
  }
}

const PAGE = 500
const COMPARE_EVERY_MS = 30 * 60_000
const COMPARE_AGAIN_MS = 60_000

/** Called with the version of a list, before its objects, and with the version of each of those. */
type ListListeners = {
  onVersion?: (listVersion: number) => void
  onNews?: ((version: number) => void) | undefined
}

export class Informer<T> implements Watch {
  readonly #synced = Promise.withResolvers<void>()
  readonly synced = this.#synced.promise
  readonly health: WatchHealth
  readonly #options: InformerOptions<T>
  readonly #needs: InformerDependencies
  readonly #store: Store<T>
  readonly #decoder: Decoder<T>
  readonly #restart: RestartPolicy
  readonly #stopping = new AbortController()
  readonly #query: ListQuery
  #version: string | undefined
  #watching = new AbortController()
  /** The connection was lost, so the store may be another one when it is back. */
  #doubtful = false
  #listing = 0
  /** Version of a list that is being delivered or was abandoned: its objects come in the order of their names. */
  #partialListVersion = 0
  /** The highest version seen; stays when `#version` is reset. */
  #highest = 0
  readonly #gapDetector: GapDetector
  readonly #handler: HandlerGuard
  #running: Promise<unknown> = Promise.resolve()

  constructor(options: InformerOptions<T>, needs: InformerDependencies) {
    this.#options = options
    this.#needs = needs
    needs.metrics.watchAdded(options.type.plural, RESTARTS)
    this.#query = { limit: PAGE, ...options.query }
    this.#handler = new HandlerGuard(options.type.plural, needs.log)
    const listener = {
      applied: (key: string, object: T, previous?: T) =>
        this.#handler.run(key, () => options.handler.applied(object, previous)),
      deleted: (key: string, last: T, version?: number) =>
        this.#handler.run(key, () => options.handler.deleted?.(last, version)),
      gone: (key: string) => this.#handler.run(key, () => options.handler.gone?.(key)),
    }
    this.#store =
      options.store ??
      (options.streaming
        ? new StreamingStore<T>(listener, options.listBudget)
        : new CachingStore<T>(listener))
    this.#decoder = new Decoder(options.decode, options.type.plural, needs)
    this.#restart = new RestartPolicy(needs.random)
    this.health = new WatchHealth(needs.clock)
    this.#gapDetector = new GapDetector(needs.clock, options.gapDetection)
  }

  /** Everything up to this version was delivered; 0 before the end of the first list. */
  get version(): number {
    return this.#highest
  }

  /** Counts of objects that failed to decode, and of exceptions in handlers. */
  get troubles(): { poisoned: number; handlerErrors: number } {
    return { poisoned: this.#decoder.poisoned, handlerErrors: this.#handler.errors }
  }

  start(): this {
    const { streaming, stopListing } = this.#options
    this.#running = Promise.all([this.#run(), streaming || stopListing ? undefined : this.#compareForEver()])
    return this
  }

  /** Resolves when no handler will be called any more. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    this.#watching.abort()
    await this.#running
  }

  /** Reopens the stream, which may be dead without an error, from the last version. */
  reopen(): void {
    this.#watching.abort()
    this.#watching = new AbortController()
  }

  /** Abandons the current list or watch for a new list. */
  relist(): void {
    this.#listing += 1
    this.#version = undefined
    this.reopen()
  }

  /** A list was completed and nothing has invalidated it since. */
  get isListed(): boolean {
    return this.#version !== undefined
  }

  /** Everything older than a known object is known too. */
  get isGapless(): boolean {
    return this.isListed && this.#highest >= this.#partialListVersion
  }

  get #stopped(): boolean {
    return this.#stopping.signal.aborted
  }

  async #run(): Promise<void> {
    while (!this.#stopped) {
      const { restart, reason, error } = await this.#round()
      if (this.#stopped) return
      const resource = this.#options.type.plural
      this.#needs.metrics.watchRestarted(resource, reason)
      if (error !== undefined) {
        this.#needs.log.warn('watch_failed', 'watch failed; restarting', {
          resource,
          reason,
          error,
          ...restart,
        })
      }
      if (restart.relist) this.#version = undefined
      if (restart.waitMs > 0) await sleep(this.#needs.clock, restart.waitMs, this.#stopping.signal)
    }
  }

  /** Lists if needed and watches until that ends; never from nowhere, which would miss deletions. Never rejects. */
  async #round(): Promise<{ restart: RestartDecision; reason: string; error?: unknown }> {
    const { clock } = this.#needs
    let started: number | undefined
    const livedMs = () => (started === undefined ? 0 : clock.monotonic() - started)
    try {
      if (this.#doubtful && (await this.#wasSetBack())) this.#version = undefined
      this.#doubtful = false
      if (this.#version === undefined) await this.#list()
      if (this.#version === undefined) return { restart: { relist: true, waitMs: 0 }, reason: 'closed' }
      started = clock.monotonic()
      const progressed = await this.#watch(this.#version)
      this.health.connected()
      return { restart: this.#restart.closed(livedMs(), progressed), reason: 'closed' }
    } catch (error) {
      const reason = isApiError(error) ? error.kind : 'error'
      this.#doubtful = true
      this.health.disconnected()
      // Not a failure of the server: no wait.
      if (error instanceof WatchReset) return { restart: { relist: false, waitMs: 0 }, reason: 'closed' }
      return { restart: this.#restart.failed(error, livedMs()), reason, error }
    }
  }

  /**
   * Whether the store was restored from a backup and is older than what was seen. A watch from a future version
   * would be accepted and stay silent until that version comes.
   */
  async #wasSetBack(): Promise<boolean> {
    if (this.#version === undefined) return false
    const page = await this.#needs.api.list(this.#options.type, { ...this.#query, limit: 1 })
    return versionOf(page.resourceVersion) < this.#highest
  }

  async #list(): Promise<void> {
    const begun = dualTimestamp(this.#needs.clock)
    const onNews = this.#gapDetector.listing(this.#highest)
    const version = await this.#readList({
      onVersion: (listVersion) => {
        // Only a restored store can be older than what was seen.
        if (listVersion >= this.#highest) return
        this.#options.onStoreRestored?.()
        this.#store.age()
      },
      onNews,
    })
    if (version === undefined) return
    this.#gapDetector.heard(begun)
    this.#version = version
    this.#highest = versionOf(version)
    this.#synced.resolve()
  }

  /** @returns the version of the list, or undefined if another list started or the informer stopped */
  async #readList({ onVersion, onNews }: ListListeners = {}): Promise<string | undefined> {
    const { type, stopListing } = this.#options
    const { api, clock, log } = this.#needs
    this.#listing += 1
    const mine = this.#listing
    const version = await listIntoStore({
      api,
      type,
      query: this.#query,
      largestPage: this.#options.largestPage,
      store: this.#store,
      clock,
      take: (raw) => {
        onNews?.(versionOf(raw.metadata.resourceVersion))
        this.#take(raw, 'list')
      },
      stopListing,
      isOver: () => mine !== this.#listing || this.#stopped,
      onPageFailed: (error) =>
        log.warn('list_page_failed', 'failed to read a page of a list; retrying', {
          resource: type.plural,
          error,
        }),
      onVersion: (listVersion) => {
        this.#partialListVersion = Math.max(this.#partialListVersion, listVersion)
        onVersion?.(listVersion)
      },
    })
    if (version !== undefined) this.#partialListVersion = 0
    return version
  }

  /** @returns whether anything arrived. @throws WatchReset */
  async #watch(from: string): Promise<boolean> {
    const { signal } = this.#watching
    let progressed = false
    this.health.opening()
    try {
      for await (const batch of this.#needs.api.watch(this.#options.type, this.#query, from, signal)) {
        if (signal.aborted) break
        for (const event of batch) progressed = this.#takeEvent(event) || progressed
        this.#gapDetector.heard()
        this.health.connected()
        if (progressed) this.#restart.progress()
      }
    } catch (error) {
      if (!signal.aborted) throw error
    }
    if (signal.aborted) throw new WatchReset()
    return progressed
  }

  /** @returns whether it is newer than all before; false once a new list is wanted, which does not start from it */
  #takeEvent(event: WatchEvent): boolean {
    const version = event.type === 'BOOKMARK' ? event.resourceVersion : this.#takeChange(event)
    const number = versionOf(version)
    if (this.#version === undefined || number <= this.#highest) return false
    this.#version = version
    this.#highest = number
    this.#store.seenUpTo(number)
    return true
  }

  #takeChange(event: Exclude<WatchEvent, { type: 'BOOKMARK' }>): string | undefined {
    const { object } = event
    if (event.type !== 'DELETED') this.#take(object, 'event', event.bytes)
    else {
      const identity = identityOf(object)
      if (this.#store.isNews(identity, 'event')) this.#store.delete(identity)
    }
    return object.metadata.resourceVersion
  }

  #take(raw: RawObject, source: Source, bytes?: number): void {
    const identity = identityOf(raw)
    if (!this.#store.isNews(identity, source)) return
    const object = this.#decoder.decode(raw, identity, bytes)
    if (object !== undefined) this.#store.apply(identity, object)
  }

  async #compareForEver(): Promise<void> {
    const { clock, random, log } = this.#needs
    const everyMs = this.#options.compareEveryMs ?? COMPARE_EVERY_MS
    let waitMs = everyMs
    while (!this.#stopped) {
      await sleep(clock, waitMs * (1 + random.fraction() / 10), this.#stopping.signal)
      waitMs = everyMs
      // A list that is needed or running compares as well.
      if (this.#stopped || this.#version === undefined) continue
      const seen = this.#highest
      await this.#readList({
        onVersion: (version) => {
          if (version < seen) this.relist()
        },
      }).catch((error: unknown) => {
        waitMs = Math.min(everyMs, COMPARE_AGAIN_MS)
        log.warn('cache_comparison_failed', 'failed to compare the cache with the API server; retrying', {
          resource: this.#options.type.plural,
          error,
        })
      })
    }
  }
}

/** What is listed of a kind, and the form in which its objects are kept. */
export type WatchedKind<T> = Omit<InformerOptions<T>, 'handler'>

/** @returns a function that makes informers, none of them started */
export function informers(dependencies: InformerDependencies) {
  return <T>(kind: WatchedKind<T>, handler: InformerHandler<T>): Informer<T> =>
    new Informer({ ...kind, handler }, dependencies)
}

/** Passes every change to a store. */
export function into<T>(store: { apply(object: T): void; remove(object: T): void }): InformerHandler<T> {
  return { applied: (object) => store.apply(object), deleted: (object) => store.remove(object) }
}

/** All objects of a kind, as its schema reads them. */
export function kindOf<T>(type: ResourceType, schema: { parse(raw: RawObject): T }): WatchedKind<T> {
  return { type, decode: (raw) => schema.parse(raw) }
}
