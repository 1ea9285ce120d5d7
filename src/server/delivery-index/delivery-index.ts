/** The delivery index: answers requests for the deliveries of an endpoint from memory, over the log and the objects. */

import type { AcceptedEvent } from '../../apis/delivery-segment.ts'
import { nameOfMessage, timeOfName } from '../../apis/ids.ts'
import type { InformerDependencies } from '../../kube/informer.ts'
import type { GaugeRegistry } from '../../lib/metrics.ts'
import { sleep } from '../../lib/time.ts'
import type { EndpointIdentity } from '../../webhooks/endpoints/directory.ts'
import type { OpenBodies } from '../../webhooks/events/open-bodies.ts'
import type { LogStore } from '../../webhooks/log/log-store.ts'
import type { Appended } from '../../webhooks/log/store.ts'
import type { DeliveryDetail } from '../delivery-resource.ts'
import { Problem } from '../http/problems.ts'
import { countEnded, NONE, type PackedId, packedName } from './line-table.ts'
import { type LogPage, type LogQuery, logPage, readDetail } from './queries.ts'
import { IndexReading } from './reader.ts'

type DeliveryIndexOptions = {
  needs: InformerDependencies
  store: LogStore
  /** Maximum of deliveries in memory; beyond it the oldest ended ones are evicted. */
  maxEntries: number
}

/** Bounds the clock skew between processes and the lag of the watch. */
const YOUNG_MS = 5000
const MAX_WAIT_MS = 1000
const POLL_MS = 25
/** Bounds the waiting requests of clients that make up ids. */
const MAX_WAITING = 100
/** Retry-After of reads that come too early. */
const RETRY_AFTER_SECONDS = 2

export type IndexStats = {
  lines: number
  endpoints: number
  segments: number
  held: number
  bytes: number
  /** Lines that were evicted or did not fit, since the start. */
  dropped: number
  restarts: number
  reading: boolean
}

export class OpenDeliveryIndex {
  readonly ready: Promise<void>
  readonly #options: DeliveryIndexOptions
  readonly #ready = Promise.withResolvers<void>()
  #reading: IndexReading
  #wasRead = false
  /** Requests that wait for deliveries which another process has just accepted. */
  #waiting = 0
  #restarts = 0
  #dropped = 0
  #stopped = false
  /** Resolves when all earlier readings have stopped. */
  #earlierStopped: Promise<unknown> = Promise.resolve()

  constructor(options: DeliveryIndexOptions) {
    this.#options = options
    this.ready = this.#ready.promise
    this.#reading = this.#newReading()
  }

  start(): this {
    this.#reading.start()
    return this
  }

  /** What is being read, as text, for the first time or again; undefined if all was read. */
  get progress(): string | undefined {
    return this.#reading.progress
  }

  /** Text for /readyz. Only the first reading counts: later ones may hit all replicas at once, which still serve everything else. */
  get problem(): string | undefined {
    return this.#wasRead ? undefined : this.progress
  }

  /** Reopens watches that may be dead without noticing. */
  reopen(): void {
    this.#reading.reopen()
  }

  async stop(): Promise<void> {
    this.#stopped = true
    await this.#earlierStopped
    await this.#reading.stop()
  }

  /** Newest first. @throws Problem `overloaded` while the log is being read */
  async list(endpoint: EndpointIdentity, query: LogQuery): Promise<LogPage> {
    return await logPage(this.#lines(), endpoint, query, this.#options.needs.clock)
  }

  /** Undefined if the endpoint has no such delivery (any more). @throws Problem `overloaded`; ApiError */
  async read(endpoint: EndpointIdentity, deliveryId: string): Promise<DeliveryDetail | undefined> {
    const found = await this.#readNow(endpoint, deliveryId)
    if (found || !(await this.appears(endpoint, deliveryId))) return found
    return await this.#readNow(endpoint, deliveryId)
  }

  /**
   * Waits for an unknown delivery whose id says that another process accepted it just now. @returns whether it appeared
   * @throws Problem `overloaded` if the watch of the log is interrupted, so that the delivery may exist nevertheless
   */
  async appears(endpoint: EndpointIdentity, deliveryId: string): Promise<boolean> {
    return await this.#appears('delivery', deliveryId, () => this.#find(endpoint, deliveryId) !== NONE)
  }

  async #appears(what: 'delivery' | 'event', id: string, isKnown: () => boolean): Promise<boolean> {
    if (await this.#waitFor(id, isKnown)) return true
    if (!this.#reading.isCutOff) return false
    throw new Problem('overloaded', {
      detail: `Davit temporarily cannot read new entries in the delivery log, so it cannot tell whether this ${what} exists.`,
      retryAfter: RETRY_AFTER_SECONDS,
    })
  }

  /** @returns whether it appeared; false at once if that cannot be expected */
  async #waitFor(id: string, isKnown: () => boolean): Promise<boolean> {
    const { clock } = this.#options.needs
    const age = clock.now() - timeOfName(nameOfMessage(id) ?? '')
    const isYoung = age > -YOUNG_MS && age < YOUNG_MS
    if (!isYoung || this.#waiting === MAX_WAITING) return false
    this.#waiting += 1
    try {
      const until = clock.monotonic() + MAX_WAIT_MS
      while (clock.monotonic() < until) {
        await sleep(clock, POLL_MS)
        if (isKnown()) return true
      }
      return false
    } finally {
      this.#waiting -= 1
    }
  }

  async #readNow(endpoint: EndpointIdentity, deliveryId: string): Promise<DeliveryDetail | undefined> {
    const { needs, store } = this.#options
    return await readDetail(this.#lines(), { api: needs.api, store }, endpoint, deliveryId)
  }

  /** Makes events readable right after this process appended them. @param events those of one append, in order */
  appended(appended: Appended, events: readonly AcceptedEvent[]): void {
    this.#reading.lines.appended(appended, events)
  }

  /**
   * The name of the DeliverySegment with the event; undefined if that is gone or the delivery is unknown.
   * @throws Problem `overloaded` while the log is being read
   */
  segmentOf(endpoint: EndpointIdentity, deliveryId: string): string | undefined {
    const { segments, table } = this.#lines()
    const line = this.#find(endpoint, deliveryId)
    return line === NONE ? undefined : segments.at(table.segment(line))?.name
  }

  /**
   * The name of the DeliverySegment with an event, whether anybody gets it or not; undefined if there is none (any more).
   * @throws Problem `overloaded` while the log is being read, or if it may have the event and cannot be watched
   */
  async segmentOfEvent(namespace: string, eventId: string): Promise<string | undefined> {
    const id = packedName(nameOfMessage(eventId) ?? '')
    if (!id) return undefined
    const find = () => this.#segmentOfEvent(namespace, id)
    const found = find()
    if (found !== undefined) return found
    return (await this.#appears('event', eventId, () => find() !== undefined)) ? find() : undefined
  }

  #segmentOfEvent(namespace: string, id: PackedId): string | undefined {
    const { logs, segments, table } = this.#lines()
    for (const { lines } of logs.in(namespace)) {
      const line = lines.find(id)
      const segment = line === NONE ? undefined : segments.at(table.segment(line))
      if (segment) return segment.name
    }
    return undefined
  }

  #find({ namespace, uid }: EndpointIdentity, deliveryId: string): number {
    const id = packedName(nameOfMessage(deliveryId) ?? '')
    return (id && this.#reading.lines.lines.logs.find(namespace, uid)?.lines.find(id)) ?? NONE
  }

  /** Counts unfinished deliveries per endpoint. Yields nothing while reading, when ended ones still look unfinished. */
  *unfinished(): IterableIterator<{ namespace: string; uid: string; size: number; bytes: number }> {
    if (this.progress !== undefined) return
    for (const {
      namespace,
      uid,
      lines,
      counts,
      openBytes: bytes,
    } of this.#reading.lines.lines.logs.values()) {
      const size = lines.size - countEnded(counts)
      if (size > 0) yield { namespace, uid, size, bytes }
    }
  }

  /** The bodies of unfinished deliveries; undefined while reading. */
  openBodies(): OpenBodies | undefined {
    return this.progress === undefined ? this.#reading.lines.lines.bodies : undefined
  }

  stats(): IndexStats {
    const { lines, held } = this.#reading.lines
    const { table, logs, segments } = lines
    return {
      lines: table.size,
      endpoints: logs.size,
      segments: segments.size,
      held,
      // Computed on demand, since it sums over all endpoints.
      get bytes() {
        return table.bytes + logs.bytes
      },
      dropped: this.#dropped + lines.dropped,
      restarts: this.#restarts,
      reading: this.progress !== undefined,
    }
  }

  #lines() {
    const { progress, lines } = this.#reading
    if (progress === undefined) return lines.lines
    throw new Problem('overloaded', {
      detail: `The delivery log is still loading (${this.#reading.loaded}).`,
      retryAfter: RETRY_AFTER_SECONDS,
    })
  }

  #newReading(): IndexReading {
    const { needs, store, maxEntries } = this.#options
    const reading = new IndexReading(needs, store, maxEntries, (why) => this.#readAgain(why))
    void reading.ready.then(() => {
      const { lines } = reading
      if (this.#wasRead) {
        needs.log.info('delivery_index_rebuilt', 'rebuilt delivery index', { lines: lines.size })
      }
      this.#wasRead = true
      this.#ready.resolve()
    })
    return reading
  }

  #readAgain(why: string): void {
    if (this.#stopped) return
    this.#options.needs.log.warn('delivery_index_rebuild_started', 'rebuilding delivery index', { why })
    const before = this.#reading
    this.#restarts += 1
    this.#dropped += before.lines.lines.dropped
    this.#reading = this.#newReading().start()
    this.#earlierStopped = Promise.all([this.#earlierStopped, before.stop()])
  }
}

export function registerIndexGauges(
  registry: Pick<GaugeRegistry, 'gauge' | 'total'>,
  index: { stats(): IndexStats },
): void {
  const gauge = (name: string, help: string, read: (stats: IndexStats) => number) =>
    registry.gauge(name, help, () => read(index.stats()))
  const total: typeof gauge = (name, help, read) => registry.total(name, help, () => read(index.stats()))
  gauge(
    'davit_index_deliveries',
    'Number of deliveries in the delivery index of the REST API.',
    ({ lines }) => lines,
  )
  gauge('davit_index_bytes', 'Approximate memory of the delivery index, in bytes.', ({ bytes }) => bytes)
  total(
    'davit_index_dropped_total',
    'Number of deliveries that the delivery index has dropped since the start because its limit was reached. The oldest finished deliveries are dropped.',
    ({ dropped }) => dropped,
  )
  gauge(
    'davit_index_held_outcomes',
    'Number of outcomes that wait until the delivery index has read their events.',
    ({ held }) => held,
  )
  total(
    'davit_index_restarts_total',
    'Number of times that the delivery index was rebuilt from the beginning.',
    ({ restarts }) => restarts,
  )
  gauge(
    'davit_index_reading',
    '1 while the delivery index is being read and its routes respond with 503, otherwise 0.',
    ({ reading }) => Number(reading),
  )
}
