import { LRUCache } from 'lru-cache'
import { newerEvents } from '../apis/core-kinds.ts'
import { FairQueue } from '../lib/fair-queue.ts'
import type { Logger } from '../lib/log.ts'
import type { EventDrop, RecorderMetrics } from '../lib/metrics.ts'
import { TokenBucket } from '../lib/rate-limit.ts'
import { type Clock, type Random, sleep } from '../lib/time.ts'
import { isApiError, type RawObject, type ResourceWriter } from './client.ts'

/**
 * Records Kubernetes Events, as client-go's recorder does: repeats are counted on one Event, and rates are limited
 * per object and overall. Namespaces take turns, and when too many wait, the namespace that has most of them loses its newest.
 */

/** One entry of `kubectl describe`. Reasons are CamelCase constants. */
export type RecordedEvent = { type: 'Normal' | 'Warning'; reason: string; message: string }

/** Best effort, bounded, never throws. Repeats of the same event are counted on one object. */
export interface EventRecorder {
  record(about: RegardingObject, event: RecordedEvent): void
}

type RegardingObject = Pick<RawObject, 'apiVersion' | 'kind' | 'metadata'>

/** Namespace of Events about cluster-scoped objects. */
const NAMESPACE_OF_CLUSTER = 'default'
const CONTROLLER = 'davit'
/** Limits of the API server, in bytes. */
const MAX_NOTE = 1024
const MAX_INSTANCE = 128
const MAX_NAME = 253

function namespaceOfEvent(about: RegardingObject): string {
  return about.metadata.namespace ?? NAMESPACE_OF_CLUSTER
}

/** An events.k8s.io/v1 Event. @param at.now milliseconds since 1970 @param at.suffix makes the name unique, hex */
export function eventObject(
  about: RegardingObject,
  event: RecordedEvent,
  at: { now: number; suffix: string; instance: string },
): RawObject {
  const { namespace, name, uid, resourceVersion } = about.metadata
  const stem = name.slice(0, MAX_NAME - at.suffix.length - 1).replace(/[^a-z0-9]+$/, '')
  return {
    apiVersion: 'events.k8s.io/v1',
    kind: 'Event',
    metadata: { name: `${stem}.${at.suffix}`, namespace: namespaceOfEvent(about) },
    eventTime: microTime(at.now),
    reportingController: CONTROLLER,
    reportingInstance: truncateUtf8(at.instance, MAX_INSTANCE),
    action: 'Reconcile',
    type: event.type,
    reason: event.reason,
    note: truncateUtf8(event.message, MAX_NOTE),
    regarding: { apiVersion: about.apiVersion, kind: about.kind, namespace, name, uid, resourceVersion },
  }
}

/** The patch that counts a repeat. @param count 2 or more */
function seriesPatch(count: number, now: number): object {
  return { series: { count, lastObservedTime: microTime(now) } }
}

/** The API server wants all six digits. @param now milliseconds since 1970 */
export function microTime(now: number): string {
  return new Date(now).toISOString().replace('Z', '000Z')
}

/** The start of a text that fits into `most` bytes of UTF-8, cut between characters. */
export function truncateUtf8(text: string, most: number): string {
  const bytes = Buffer.from(text)
  if (bytes.length <= most) return text
  let end = most
  // The first dropped byte must not continue a character.
  while (((bytes[end] ?? 0) & 0xc0) === 0x80) end -= 1
  return bytes.toString('utf8', 0, end)
}

export type EventRecorderOptions = {
  api: ResourceWriter
  /** Name of this process (reportingInstance). */
  reporter: string
  clock: Clock
  random: Random
  log: Logger
  metrics: RecorderMetrics
}

/** The limits of client-go's recorder for one object, and our own for all. */
const BURST_OF_OBJECT = 25
const OBJECT_EVERY_MS = 300_000
const BURST = 100
const EVERY_MS = 100
/** A later repeat starts a new Event. */
const SERIES_MS = 10 * 60_000
const REMEMBERED = 4_000
const MAX_QUEUE = 1_000
const LOG_FAILURE_EVERY_MS = 60_000

/** Repeats of one event about one object. */
type Series = {
  about: RegardingObject
  event: RecordedEvent
  name?: string
  count: number
  written: number
  lastAt: number
}

export class AggregatingRecorder implements EventRecorder {
  readonly #options: EventRecorderOptions
  readonly #series = new LRUCache<string, Series>({ max: REMEMBERED })
  readonly #buckets = new LRUCache<string, TokenBucket>({ max: REMEMBERED })
  readonly #ofAll = new TokenBucket(BURST, (from, to) => (to - from) / EVERY_MS)
  readonly #queue = new FairQueue<Series>()
  readonly #queued = new Set<Series>()
  readonly #draining = new AbortController()
  #writing: Promise<void> | undefined
  #failureLoggedAt = Number.NEGATIVE_INFINITY

  constructor(options: EventRecorderOptions) {
    this.#options = options
  }

  record(about: RegardingObject, event: RecordedEvent): void {
    const series = this.#seriesOf(about, event)
    series.count += 1
    series.lastAt = this.#options.clock.monotonic()
    // A queued series has the new count already.
    if (this.#queued.has(series)) return
    const namespace = namespaceOfEvent(about)
    if (!this.#mayWrite(about)) this.#drop(series, 'object_limit')
    else if (!this.#makeRoom(namespace)) this.#drop(series, 'queue_full')
    else {
      this.#queued.add(series)
      this.#queue.push(namespace, series)
      this.#writing ??= this.#writeAll()
      if (series.count === 1) this.#logEvent(series)
    }
  }

  #makeRoom(namespace: string): boolean {
    if (this.#queue.size < MAX_QUEUE) return true
    const dropped = this.#queue.takeFromLargest(namespace)
    if (!dropped) return false
    this.#queued.delete(dropped)
    this.#drop(dropped, 'queue_full')
    return true
  }

  /** The count of a repeat is not lost: the next one writes it. */
  #drop(series: Series, reason: EventDrop): void {
    if (series.written === 0) this.#options.metrics.kubernetesEventDropped(reason)
  }

  /** Writes what waits without a limit of the rate. Resolves when everything recorded was written, or failed. */
  async drain(): Promise<void> {
    this.#draining.abort()
    await this.#writing
  }

  #seriesOf(about: RegardingObject, event: RecordedEvent): Series {
    const key = JSON.stringify([idOf(about), event.type, event.reason, event.message])
    const now = this.#options.clock.monotonic()
    const known = this.#series.get(key)
    if (known && now - known.lastAt < SERIES_MS) return known
    const series: Series = { about: slim(about), event, count: 0, written: 0, lastAt: now }
    this.#series.set(key, series)
    return series
  }

  #mayWrite(about: RegardingObject): boolean {
    const now = this.#options.clock.monotonic()
    const id = idOf(about)
    const bucket =
      this.#buckets.get(id) ?? new TokenBucket(BURST_OF_OBJECT, (from, to) => (to - from) / OBJECT_EVERY_MS)
    this.#buckets.set(id, bucket)
    return bucket.tryTake(now)
  }

  /** Sequentially: Events are never urgent. */
  async #writeAll(): Promise<void> {
    const { clock } = this.#options
    while (this.#queue.size > 0) {
      const mayWrite = this.#draining.signal.aborted || this.#ofAll.tryTake(clock.monotonic())
      const series = mayWrite ? this.#queue.take() : undefined
      if (!series) {
        await sleep(clock, EVERY_MS, this.#draining.signal)
        continue
      }
      await this.#write(series).catch((error: unknown) => this.#failed(series, error))
      this.#queued.delete(series)
    }
    this.#writing = undefined
  }

  async #write(series: Series): Promise<void> {
    const { api, clock } = this.#options
    if (series.name === undefined) await this.#create(series)
    const { count, name } = series
    if (name === undefined || count <= series.written) return
    const ref = { namespace: namespaceOfEvent(series.about), name }
    try {
      await api.patch(newerEvents, ref, seriesPatch(count, clock.now()), { answer: 'metadata' })
      series.written = count
    } catch (error) {
      // Events live for an hour; then the series starts again.
      if (!isApiError(error, 'NotFound')) throw error
      series.count = 1
      await this.#create(series)
    }
  }

  async #create(series: Series): Promise<void> {
    const { api, clock, random, reporter } = this.#options
    const suffix = Buffer.from(random.bytes(8)).toString('hex')
    const object = eventObject(series.about, series.event, { now: clock.now(), suffix, instance: reporter })
    await api.create(newerEvents, object, { answer: 'metadata' })
    series.name = object.metadata.name
    series.written = 1
  }

  /** Events are short-lived and in the tenant's namespace; the cluster operator reads the log. */
  #logEvent({ about, event }: Series): void {
    const { type, reason, message } = event
    const { namespace, name } = about.metadata
    const fields = { reason, what: message, kind: about.kind, namespace, name }
    this.#options.log[type === 'Warning' ? 'warn' : 'info']('event_recorded', 'recorded an Event', fields)
  }

  #failed(series: Series, error: unknown): void {
    this.#drop(series, 'write_failed')
    const now = this.#options.clock.monotonic()
    if (now - this.#failureLoggedAt < LOG_FAILURE_EVERY_MS) return
    this.#failureLoggedAt = now
    this.#options.log.warn('event_write_failed', 'failed to write an Event', { error })
  }
}

function idOf({ kind, metadata }: RegardingObject): string {
  return metadata.uid ?? `${kind}/${metadata.namespace ?? ''}/${metadata.name}`
}

/** Keeps only what an Event says of the object. */
function slim({ apiVersion, kind, metadata }: RegardingObject): RegardingObject {
  const { name, namespace, uid, resourceVersion } = metadata
  return {
    ...(apiVersion === undefined ? {} : { apiVersion }),
    ...(kind === undefined ? {} : { kind }),
    metadata: { name, namespace, uid, resourceVersion },
  }
}
