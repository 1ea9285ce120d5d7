/** The delivery index: answers requests for events and deliveries from memory, over the log and the objects. */

import type { AcceptedEvent } from '../../apis/delivery-segment.ts'
import { nameOfMessage, timeOfName } from '../../apis/ids.ts'
import type { InformerDependencies } from '../../kube/informer.ts'
import { SharedCapacity } from '../../lib/fair-queue.ts'
import type { GaugeRegistry } from '../../lib/metrics.ts'
import { sleep } from '../../lib/time.ts'
import type { EndpointIdentity } from '../../webhooks/endpoints/directory.ts'
import { OpenBodies } from '../../webhooks/events/open-bodies.ts'
import { findOriginal } from '../../webhooks/events/originals.ts'
import { byteLength } from '../../webhooks/log/codec.ts'
import type { LogStore } from '../../webhooks/log/log-store.ts'
import type { Appended } from '../../webhooks/log/store.ts'
import type { DeliveryDetail } from '../delivery-resource.ts'
import { Problem } from '../http/problems.ts'
import { MessageBuffer } from '../stream/message-buffer.ts'
import { messagesOfChanges } from '../stream/messages.ts'
import { type EventPage, type EventQuery, eventPage, findEvent, type IndexedEvent } from './event-queries.ts'
import { countEnded, NONE, packedName } from './line-table.ts'
import type { DeliveryLines } from './line-updates.ts'
import { type LogPage, type LogQuery, logPage, readDetail, segmentOfDelivery } from './queries.ts'
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
/** Bound the waiting requests of clients that make up ids: of all organizations, and of each. */
const MAX_WAITING = 100
const MAX_WAITING_OF_ORGANIZATION = 20
/** Of messages that are kept for event streams. */
const MAX_MESSAGE_BYTES = 32 * 1024 * 1024
/** Retry-After of reads that come too early. */
const RETRY_AFTER_SECONDS = 2

/** What a request waits for. */
type Wanted = { what: 'delivery' | 'event'; namespace: string; id: string; isKnown: () => boolean }

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
  /** Called with roughly the bytes that each write of a WebhookDelivery adds to the store. */
  onObjectWritten: ((organization: string, bytes: number) => void) | undefined
  /** Called with the organization that has new messages for event streams; with undefined if all streams end. */
  onMessages: ((organization: string | undefined) => void) | undefined
  /** What `#reading` has found for event streams. */
  #messages: MessageBuffer
  #wasRead = false
  /** Requests that wait for deliveries which another process has just accepted. */
  readonly #waiting = new SharedCapacity(MAX_WAITING, MAX_WAITING_OF_ORGANIZATION)
  #restarts = 0
  #dropped = 0
  #stopped = false
  /** While the log is being read: the bodies of deliveries that were unfinished before, and those that this process has appended since. */
  #openBefore = new OpenBodies()
  /** Resolves when all earlier readings have stopped. */
  #earlierStopped: Promise<unknown> = Promise.resolve()

  constructor(options: DeliveryIndexOptions) {
    this.#options = options
    this.ready = this.#ready.promise
    this.#messages = this.#newMessages()
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

  /** Newest first. @param endpoints of one organization @throws Problem `overloaded` while the log is being read */
  async list(endpoints: readonly EndpointIdentity[], query: LogQuery): Promise<LogPage> {
    return logPage(this.#usable().lines, endpoints, query)
  }

  /** The events of an organization, newest first. @throws Problem `overloaded` while the log is being read */
  async events(organization: string, query: EventQuery): Promise<EventPage> {
    return eventPage(this.#usable().lines, organization, query)
  }

  /** Undefined if the endpoint has no such delivery (any more). @throws Problem `overloaded`; ApiError */
  async read(endpoint: EndpointIdentity, deliveryId: string): Promise<DeliveryDetail | undefined> {
    const found = await this.#readNow(endpoint, deliveryId)
    if (found || !(await this.appears(endpoint, deliveryId))) return found
    return await this.#readNow(endpoint, deliveryId)
  }

  /**
   * The body that receivers get, from the object of the delivery or from the log; undefined if both are gone.
   * @throws Problem `overloaded` while the log is being read; ApiError
   */
  async body(endpoint: EndpointIdentity, deliveryId: string): Promise<string | undefined> {
    const { needs, store } = this.#options
    const sources = { resources: needs.api, store }
    const original = await findOriginal(sources, endpoint, deliveryId, (of, id) => this.segmentOf(of, id))
    return original?.payload
  }

  /**
   * Waits for an unknown delivery whose id says that another process accepted it just now. @returns whether it appeared
   * @throws Problem `overloaded` if the watch of the log is interrupted, so that the delivery may exist nevertheless
   */
  async appears(endpoint: EndpointIdentity, deliveryId: string): Promise<boolean> {
    const isKnown = () => this.#find(endpoint, deliveryId) !== NONE
    return await this.#appears({ what: 'delivery', namespace: endpoint.namespace, id: deliveryId, isKnown })
  }

  async #appears(wanted: Wanted): Promise<boolean> {
    if (await this.#waitFor(wanted)) return true
    if (!this.#reading.isCutOff) return false
    throw new Problem('overloaded', {
      detail: `Davit currently cannot read new entries in the delivery log, so it cannot tell whether this ${wanted.what} exists. Retry the request.`,
      retryAfter: RETRY_AFTER_SECONDS,
    })
  }

  /** @returns whether it appeared; false at once if that cannot be expected */
  async #waitFor({ namespace, id, isKnown }: Wanted): Promise<boolean> {
    const { clock } = this.#options.needs
    const age = clock.now() - timeOfName(nameOfMessage(id) ?? '')
    const isYoung = age > -YOUNG_MS && age < YOUNG_MS
    if (!isYoung || !this.#waiting.hasRoom(namespace)) return false
    this.#waiting.take(namespace, 1)
    try {
      const until = clock.monotonic() + MAX_WAIT_MS
      while (clock.monotonic() < until) {
        await sleep(clock, POLL_MS)
        if (isKnown()) return true
      }
      return false
    } finally {
      this.#waiting.give(namespace, 1)
    }
  }

  async #readNow(endpoint: EndpointIdentity, deliveryId: string): Promise<DeliveryDetail | undefined> {
    const { needs, store } = this.#options
    return await readDetail(this.#usable(), { api: needs.api, store }, endpoint, deliveryId)
  }

  /** For event streams. @throws Problem `overloaded` while the log is being read */
  messageBuffer(): MessageBuffer {
    this.#usable()
    return this.#messages
  }

  get messageBytes(): number {
    return this.#messages.bytes
  }

  /** The current version of etcd. @throws ApiError */
  async currentVersion(): Promise<number> {
    return (await this.#options.store.page('outcomes', { limit: 1 })).version
  }

  /** Makes events readable right after this process appended them. @param events those of one append, in order */
  appended(appended: Appended, events: readonly AcceptedEvent[]): void {
    this.#reading.lines.appended(appended, events)
    if (this.progress === undefined) return
    // Once, whatever its deliveries will take: nothing is given back until everything was read.
    for (const { event, targets } of events)
      if (targets.length > 0) this.#openBefore.add(event.namespace, { bytes: byteLength(event.payload) })
  }

  /**
   * The name of the DeliverySegment with the delivery's event; undefined if that is gone or the event is unknown.
   * @throws Problem `overloaded` while the log is being read
   */
  segmentOf(endpoint: EndpointIdentity, deliveryId: string): string | undefined {
    return segmentOfDelivery(this.#usable().lines, endpoint, deliveryId)
  }

  /**
   * An event of the log, whether or not it has receivers; undefined if there is none (any more).
   * @throws Problem `overloaded` while the log is being read, or if it may have the event and cannot be watched
   */
  async event(organization: string, eventId: string): Promise<IndexedEvent | undefined> {
    const find = () => findEvent(this.#usable().lines, organization, eventId)
    const found = find()
    if (found) return found
    const isKnown = () => find() !== undefined
    const wanted: Wanted = { what: 'event', namespace: organization, id: eventId, isKnown }
    return (await this.#appears(wanted)) ? find() : undefined
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

  /** The bodies of unfinished deliveries. While the log is being read, those of before, and what this process has appended since. */
  openBodies(): Pick<OpenBodies, 'total' | 'of'> {
    return this.progress === undefined ? this.#reading.lines.lines.bodies : this.#openBefore
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

  /** @throws Problem `overloaded` while the log is being read */
  #usable(): DeliveryLines {
    const { progress, lines } = this.#reading
    if (progress === undefined) return lines
    throw new Problem('overloaded', {
      detail: `The delivery log is still loading (${this.#reading.loaded}). Retry the request.`,
      retryAfter: RETRY_AFTER_SECONDS,
    })
  }

  #newMessages(): MessageBuffer {
    const onNews = (organization: string | undefined) => this.onMessages?.(organization)
    return new MessageBuffer({ maxBytes: MAX_MESSAGE_BYTES, onNews })
  }

  #newReading(): IndexReading {
    const { needs, store, maxEntries } = this.#options
    const reading = new IndexReading(needs, store, maxEntries, {
      lost: (why) => this.#readAgain(why),
      objectWritten: (organization, bytes) => this.onObjectWritten?.(organization, bytes),
      changes: messagesOfChanges(this.#messages, needs.clock),
    })
    void reading.ready.then(() => {
      const { lines } = reading
      if (this.#wasRead) {
        needs.log.info('delivery_index_rebuilt', 'rebuilt delivery index', { lines: lines.size })
      }
      if (reading === this.#reading) this.#openBefore = new OpenBodies()
      this.#wasRead = true
      this.#ready.resolve()
    })
    return reading
  }

  #readAgain(why: string): void {
    if (this.#stopped) return
    this.#options.needs.log.warn('delivery_index_rebuild_started', 'rebuilding delivery index', { why })
    const before = this.#reading
    if (before.progress === undefined) this.#openBefore = before.lines.lines.bodies
    this.#restarts += 1
    this.#dropped += before.lines.lines.dropped
    this.#messages.close()
    this.#messages = this.#newMessages()
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
    'Number of outcomes that are waiting for the delivery index to read their events.',
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
