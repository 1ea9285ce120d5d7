import {
  ApiError,
  type ListQuery,
  type Page,
  type RawObject,
  type ResourceReader,
  type WatchEvent,
  type WatchSource,
} from '../../src/kube/client.ts'
import { Changes } from './changes.ts'

type EventBatch = { version: number; events: WatchEvent[] }
type Stream = { at: number; fault: Error | 'end' | undefined }

/**
 * Lists and watches a store in memory, in the order of versions, with scripted faults. For tests of ordering; tests of bytes and
 * sockets need the scripted server.
 */
export class FakeApi implements ResourceReader, WatchSource {
  readonly objects = new Map<string, RawObject>()
  version = 100
  pageSize = 3
  lists = 0
  watches = 0
  /** Thrown by the next lists, one each; undefined lets one succeed. */
  readonly listFaults: (Error | undefined)[] = []
  /** Delays the next pages until it resolves. */
  gate: Promise<void> | undefined
  /** Called in turn after a page was read and before its reader gets it. */
  readonly meanwhile: (() => void)[] = []
  readonly #batches: EventBatch[] = []
  readonly #streams = new Set<Stream>()
  readonly #changes = new Changes()
  readonly #pages = new Map<string, { items: RawObject[]; version: number }>()

  get open(): number {
    return this.#streams.size
  }

  put(
    name: string,
    how: {
      silently?: boolean
      twice?: boolean
      again?: boolean
      fields?: object
      labels?: object
      creationTimestamp?: string
    } = {},
  ): void {
    this.version += 1
    const before = this.objects.get(name)
    const uid = before && !how.again ? before.metadata.uid : `uid-${this.version}`
    const { labels, creationTimestamp } = how
    const metadata = {
      name,
      namespace: 'org',
      uid,
      resourceVersion: String(this.version),
      ...(labels ? { labels } : {}),
      ...(creationTimestamp === undefined ? {} : { creationTimestamp }),
    }
    const object: RawObject = { metadata, ...how.fields }
    this.objects.set(name, object)
    const events: WatchEvent[] = [{ type: before ? 'MODIFIED' : 'ADDED', object }]
    if (how.again && before) {
      events.unshift({ type: 'DELETED', object: { ...before, metadata: { ...before.metadata } } })
      const deletedAt = (events[0] as { object: RawObject }).object.metadata
      deletedAt.resourceVersion = String(this.version - 1)
    }
    if (!how.silently) this.tell(...events, ...(how.twice ? events : []))
  }

  remove(name: string, how: { silently?: boolean; twice?: boolean } = {}): void {
    const before = this.objects.get(name)
    if (!before) return
    this.version += 1
    this.objects.delete(name)
    const metadata = { ...before.metadata, resourceVersion: String(this.version) }
    const event: WatchEvent = { type: 'DELETED', object: { ...before, metadata } }
    if (!how.silently) this.tell(event, ...(how.twice ? [event] : []))
  }

  bookmark(): void {
    this.tell({ type: 'BOOKMARK', resourceVersion: String(this.version) })
  }

  /** Sends invalid events immediately. */
  tell(...events: WatchEvent[]): void {
    this.#batches.push({ version: this.version, events })
    this.#changes.notify()
  }

  /** Restores the store to an older version, empty and without the later history. */
  restore(version: number): void {
    this.objects.clear()
    this.version = version
    this.#batches.length = 0
  }

  /** Ends all open watches. */
  endWatches(how: Error | 'end' = 'end'): void {
    for (const stream of this.#streams) stream.fault = how
    this.#changes.notify()
  }

  async get(): Promise<RawObject> {
    throw new ApiError('NotFound', 'nobody gets here')
  }

  async list(_type: unknown, query: ListQuery, from?: string): Promise<Page> {
    // The caller only needs the version.
    if (query.limit === 1) return { ...this.#page(this.#snapshot()), items: [] }
    this.lists += 1
    const fault = this.listFaults.shift()
    if (fault) throw fault
    const rest = from === undefined ? this.#snapshot() : this.#pages.get(from)
    if (!rest) throw new ApiError('Gone', 'the page has expired', { status: 410 })
    this.meanwhile.shift()?.()
    const page = this.#page(rest)
    await this.gate
    // The watch may be faster than the list.
    for (let turn = 0; turn < 3; turn += 1) await new Promise((resolve) => setImmediate(resolve))
    return page
  }

  #page(rest: { items: RawObject[]; version: number }): Page {
    const left = rest.items.slice(this.pageSize)
    const token = `page-${this.lists}`
    if (left.length > 0) this.#pages.set(token, { items: left, version: rest.version })
    return {
      items: rest.items.slice(0, this.pageSize),
      resourceVersion: String(rest.version),
      ...(left.length > 0 ? { continue: token } : {}),
    }
  }

  async *watch(
    _type: unknown,
    _query: unknown,
    from: string,
    signal: AbortSignal,
  ): AsyncGenerator<WatchEvent[]> {
    this.watches += 1
    const first = this.#batches.findIndex((batch) => batch.version > Number(from))
    const stream: Stream = { at: first === -1 ? this.#batches.length : first, fault: undefined }
    this.#streams.add(stream)
    const wake = () => this.#changes.notify()
    signal.addEventListener('abort', wake)
    try {
      for (;;) {
        await this.#changes.until(
          () => signal.aborted || stream.fault !== undefined || stream.at < this.#batches.length,
        )
        if (signal.aborted || stream.fault === 'end') return
        if (stream.fault) throw stream.fault
        const events = this.#batches[stream.at]?.events
        stream.at += 1
        if (events) yield events
      }
    } finally {
      signal.removeEventListener('abort', wake)
      this.#streams.delete(stream)
    }
  }

  #snapshot(): { items: RawObject[]; version: number } {
    const items = [...this.objects.values()].sort((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1))
    return { items, version: this.version }
  }
}
