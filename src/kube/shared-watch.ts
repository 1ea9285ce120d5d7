import type { ResourceType } from '../apis/meta.ts'
import { Fifo } from '../lib/fair-queue.ts'
import { ApiError, type ListQuery, type ResourceReader, type WatchEvent, type WatchSource } from './client.ts'
import { versionOf } from './store.ts'

/**
 * One stream for several readers of the same objects in a process, which then come once over the network and are parsed once. The newest
 * events stay for a while, so that a reader that begins later, or falls behind, finds what it lacks. If they are gone, it gets a stream
 * of its own until it has caught up.
 */

/** Of a batch that does not say how long its lines were. */
const BYTES_OF_EVENT = 500

type Batch = { events: WatchEvent[]; version: number; bytes: number }

/** @property error absent: the server ended the stream normally */
type End = { error?: unknown }

class SharedStream {
  readonly #maxBytes: number
  readonly #onEnd: () => void
  readonly #abort = new AbortController()
  readonly #batches = new Fifo<Batch>()
  /** Number of the first batch that is still there, counted from the start. */
  #first = 0
  #bytes = 0
  /** Everything after this version is there, or is still to come. */
  #floor: number
  #readers = 0
  #end: End | undefined
  #news = Promise.withResolvers<void>()

  /** @param from the version after which it starts. @param onEnd called when no reader may join any more */
  constructor(from: number, maxBytes: number, onEnd: () => void) {
    this.#floor = from
    this.#maxBytes = maxBytes
    this.#onEnd = onEnd
  }

  /** Whether a reader that knows everything up to this version can join. */
  hasAllAfter(version: number): boolean {
    return version >= this.#floor
  }

  async pump(open: (signal: AbortSignal) => AsyncIterable<WatchEvent[]>): Promise<void> {
    try {
      for await (const events of open(this.#abort.signal)) this.#add(events)
      this.#close({})
    } catch (error) {
      this.#close({ error })
    }
  }

  /** Ends as the stream does, or without an error when the reader has fallen too far behind. */
  async *read(from: number, signal: AbortSignal): AsyncGenerator<WatchEvent[], void> {
    let next = this.#first
    const wake = () => this.#wake()
    signal.addEventListener('abort', wake)
    this.#readers += 1
    try {
      while (!signal.aborted && next >= this.#first) {
        const batch = this.#batches.at(next - this.#first)
        if (batch) {
          next += 1
          const events = eventsAfter(batch, from)
          if (events.length > 0) yield events
        } else if (!this.#end) await this.#news.promise
        else if ('error' in this.#end) throw this.#end.error
        else return
      }
    } finally {
      signal.removeEventListener('abort', wake)
      // It may have found out that the stream is dead, and begins again with another one.
      if (signal.aborted) this.#onEnd()
      this.#readers -= 1
      if (this.#readers === 0) this.#close({})
    }
  }

  #add(events: WatchEvent[]): void {
    const last = events.at(-1)
    if (this.#end || last === undefined) return
    const bytes = events.reduce((sum, event) => sum + bytesOf(event), 0)
    this.#batches.push({ events, bytes, version: versionIn(last) })
    this.#bytes += bytes
    // The newest one stays, however large it is: readers that keep up get it.
    while (this.#bytes > this.#maxBytes && this.#batches.size > 1) this.#drop()
    this.#wake()
  }

  #drop(): void {
    const dropped = this.#batches.shift()
    if (!dropped) return
    this.#first += 1
    this.#bytes -= dropped.bytes
    this.#floor = Math.max(this.#floor, dropped.version)
  }

  #close(end: End): void {
    if (this.#end) return
    this.#end = end
    this.#onEnd()
    this.#abort.abort()
    this.#wake()
  }

  #wake(): void {
    this.#news.resolve()
    this.#news = Promise.withResolvers()
  }
}

function eventsAfter({ events, version }: Batch, from: number): WatchEvent[] {
  return version > from ? events.filter((event) => versionIn(event) > from) : []
}

function versionIn(event: WatchEvent): number {
  return versionOf(event.type === 'BOOKMARK' ? event.resourceVersion : event.object.metadata.resourceVersion)
}

function bytesOf(event: WatchEvent): number {
  return ('bytes' in event ? event.bytes : undefined) ?? BYTES_OF_EVENT
}

export class SharedWatches implements WatchSource {
  readonly #source: WatchSource
  readonly #maxBytes: number
  readonly #streams = new Map<string, SharedStream>()

  /** @param maxBytes of the events that stay, of each stream */
  constructor(source: WatchSource, maxBytes: number) {
    this.#source = source
    this.#maxBytes = maxBytes
  }

  async *watch(
    type: ResourceType,
    query: ListQuery,
    resourceVersion: string,
    signal: AbortSignal,
  ): AsyncGenerator<WatchEvent[], void> {
    if (signal.aborted) return
    const key = keyOf(type, query)
    const from = versionOf(resourceVersion)
    const known = this.#streams.get(key)
    if (known?.hasAllAfter(from)) yield* joined(known.read(from, signal))
    else if (known) yield* this.#alone(key, this.#source.watch(type, query, resourceVersion, signal))
    else {
      const stream: SharedStream = new SharedStream(from, this.#maxBytes, () => {
        if (this.#streams.get(key) === stream) this.#streams.delete(key)
      })
      this.#streams.set(key, stream)
      void stream.pump((ended) => this.#source.watch(type, query, resourceVersion, ended))
      yield* stream.read(from, signal)
    }
  }

  /** Ends when it knows enough to join, so that the next watch of this reader does. */
  async *#alone(key: string, events: AsyncIterable<WatchEvent[]>): AsyncGenerator<WatchEvent[], void> {
    for await (const batch of events) {
      yield batch
      const last = batch.at(-1)
      if (last && this.#streams.get(key)?.hasAllAfter(versionIn(last))) return
    }
  }
}

/** That the version of the first reader is too old says nothing about a reader that joined. */
async function* joined(events: AsyncIterable<WatchEvent[]>): AsyncGenerator<WatchEvent[], void> {
  try {
    yield* events
  } catch (error) {
    if (!(error instanceof ApiError && error.kind === 'Gone')) throw error
  }
}

function keyOf({ plural }: ResourceType, { namespace, labelSelector, fieldSelector }: ListQuery): string {
  return JSON.stringify([plural, namespace, labelSelector, fieldSelector])
}

/** @param shared the type of which watches are shared @param maxBytes of the events that stay */
export function withSharedWatches(
  api: ResourceReader & WatchSource,
  { plural }: ResourceType,
  maxBytes: number,
): ResourceReader & WatchSource {
  const shared = new SharedWatches(api, maxBytes)
  return {
    get: (type, ref) => api.get(type, ref),
    list: (type, query, from) => api.list(type, query, from),
    watch: (type, query, version, signal) =>
      (type.plural === plural ? shared : api).watch(type, query, version, signal),
  }
}
