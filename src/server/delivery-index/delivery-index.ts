import type { AcceptedEvent } from '../../apis/delivery-segment.ts'
import { nameOfMessage } from '../../apis/ids.ts'
import type { InformerDependencies } from '../../kube/informer.ts'
import type { GaugeRegistry } from '../../lib/metrics.ts'
import type { Appended } from '../../webhooks/log/store.ts'
import { RefusedError, withRefusals } from '../http/problems.ts'
import { endedIn, NONE, packedName } from './line-table.ts'
import {
  type DeliveryDetail,
  type DeliveryIndex,
  type DeliveryPlaces,
  DeliveryWaiter,
  type LoggedEndpoint,
  type LogPage,
  type LogQuery,
  logPage,
  type OwnAppends,
  readDetail,
} from './queries.ts'
import { IndexReading } from './reader.ts'

/** The log of every endpoint as one list, over what lies in segments and what has an object. */

export type DeliveryIndexOptions = {
  needs: InformerDependencies
  /** The operator's namespace. */
  namespace: string
  /** Lines that are kept in mind; beyond it the oldest that have ended are left out. */
  maxEntries: number
}

/** What a reader that came too early is asked to wait, in seconds. */
const RETRY_AFTER_SECONDS = 2

export type IndexStats = {
  /** Lines, the endpoints and segments that they are of, and records that wait for their segments. */
  lines: number
  endpoints: number
  segments: number
  held: number
  /** Bytes of the lines themselves, and of their order. */
  bytes: number
  /** Lines that were left out for want of room, since the start. */
  dropped: number
  /** How often everything had to be read again. */
  restarts: number
  /** Whether it is being read, for the first time or again. */
  reading: boolean
}

export class OpenDeliveryIndex implements DeliveryIndex, OwnAppends, DeliveryPlaces {
  /** Everything was read once. */
  readonly ready: Promise<void>
  readonly #options: DeliveryIndexOptions
  readonly #ready = Promise.withResolvers<void>()
  readonly #young: DeliveryWaiter
  #reading: IndexReading
  #wasRead = false
  #restarts = 0
  #dropped = 0
  #stopped = false
  /** Readings that were given up. */
  #ending: Promise<unknown> = Promise.resolve()

  constructor(options: DeliveryIndexOptions) {
    this.#options = options
    this.ready = this.#ready.promise
    this.#reading = this.#newReading()
    this.#young = new DeliveryWaiter({
      clock: options.needs.clock,
      isKnown: (endpoint, deliveryId) => this.#find(endpoint, deliveryId) !== NONE,
    })
  }

  start(): this {
    this.#reading.start()
    return this
  }

  /** What is still to be read, in words; undefined when all was. Again so when all of it is read again. */
  get progress(): string | undefined {
    return this.#reading.progress
  }

  /**
   * What keeps the process from being ready, in words for /readyz: only the first reading. Later ones may befall all
   * replicas at once, which go on with everything but the log meanwhile.
   */
  get problem(): string | undefined {
    return this.#wasRead ? undefined : this.progress
  }

  /** The watches may be dead without knowing it. */
  reopen(): void {
    this.#reading.reopen()
  }

  async stop(): Promise<void> {
    this.#stopped = true
    await this.#ending
    await this.#reading.stop()
  }

  async list(endpoint: LoggedEndpoint, query: LogQuery): Promise<LogPage> {
    return await logPage(this.#lines(), endpoint, query, this.#options.needs.clock)
  }

  async read(endpoint: LoggedEndpoint, deliveryId: string): Promise<DeliveryDetail | undefined> {
    const found = await this.#readNow(endpoint, deliveryId)
    if (found || !(await this.appears(endpoint, deliveryId))) return found
    return await this.#readNow(endpoint, deliveryId)
  }

  async appears(endpoint: LoggedEndpoint, deliveryId: string): Promise<boolean> {
    if (await this.#young.appears(endpoint, deliveryId)) return true
    if (!this.#reading.isCutOff) return false
    throw new RefusedError('overloaded', {
      detail: 'The log of deliveries cannot be watched now; whether it has this one is not known.',
      retryAfter: RETRY_AFTER_SECONDS,
    })
  }

  async #readNow(endpoint: LoggedEndpoint, deliveryId: string): Promise<DeliveryDetail | undefined> {
    const { needs, namespace } = this.#options
    return await withRefusals(() =>
      readDetail({ lines: this.#lines(), api: needs.api, namespace }, endpoint, deliveryId),
    )
  }

  appended(place: Appended, events: readonly AcceptedEvent[]): void {
    this.#reading.lines.appended(place, events)
  }

  segmentOf(endpoint: LoggedEndpoint, deliveryId: string): string | undefined {
    const { lines } = this.#reading.lines
    const line = this.#find(endpoint, deliveryId)
    return line === NONE ? undefined : lines.segments.at(lines.table.segment(line))?.name
  }

  #find({ namespace, uid }: LoggedEndpoint, deliveryId: string): number {
    const id = packedName(nameOfMessage(deliveryId) ?? '')
    return (id && this.#reading.lines.lines.logs.find(namespace, uid)?.lines.find(id)) ?? NONE
  }

  /** Deliveries of each endpoint that have not ended; none before everything was read, since all seem open then. */
  *unfinished(): IterableIterator<{ namespace: string; uid: string; size: number }> {
    if (this.progress !== undefined) return
    for (const { namespace, uid, lines, counts } of this.#reading.lines.lines.logs.values()) {
      const size = lines.size - endedIn(counts)
      if (size > 0) yield { namespace, uid, size }
    }
  }

  stats(): IndexStats {
    const { lines, held } = this.#reading.lines
    const { table, logs, segments } = lines
    return {
      lines: table.size,
      endpoints: logs.size,
      segments: segments.size,
      held,
      // Adds up over all endpoints: only for whoever asks.
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
    throw new RefusedError('overloaded', {
      detail: `The log of deliveries is not complete yet (${progress}).`,
      retryAfter: RETRY_AFTER_SECONDS,
    })
  }

  #newReading(): IndexReading {
    const { needs, namespace, maxEntries: capacity } = this.#options
    const reading = new IndexReading({
      needs,
      namespace,
      capacity,
      onLost: (why) => this.#readAgain(why),
    })
    void reading.ready.then(() => this.#readToItsEnd(reading))
    return reading
  }

  #readToItsEnd({ lines }: IndexReading): void {
    if (this.#wasRead)
      this.#options.needs.log.info('The log of deliveries was read again', { lines: lines.size })
    this.#wasRead = true
    this.#ready.resolve()
  }

  #readAgain(why: string): void {
    if (this.#stopped) return
    this.#options.needs.log.warn('The log of deliveries is read again', { why })
    const before = this.#reading
    this.#restarts += 1
    this.#dropped += before.lines.lines.dropped
    this.#reading = this.#newReading().start()
    this.#ending = Promise.all([this.#ending, before.stop()])
  }
}

/** What is read of the index when Prometheus scrapes. */

export function registerIndexGauges(
  registry: Pick<GaugeRegistry, 'gauge'>,
  index: { stats(): IndexStats },
): void {
  registry.gauge(
    'davit_index_deliveries',
    'Deliveries in the log of all endpoints, as the facade shows it.',
    () => index.stats().lines,
  )
  registry.gauge('davit_index_bytes', 'Memory of that log, about.', () => index.stats().bytes)
  registry.gauge(
    'davit_index_dropped',
    'Deliveries that are not shown because there are more than may be kept in mind, since the start: the oldest of those that have ended.',
    () => index.stats().dropped,
  )
  registry.gauge(
    'davit_index_held_outcomes',
    'Outcomes that wait until the events they speak of are seen.',
    () => index.stats().held,
  )
  registry.gauge(
    'davit_index_restarts',
    'How often that log had to be read again from the beginning.',
    () => index.stats().restarts,
  )
  registry.gauge(
    'davit_index_reading',
    'Whether that log is being read, so that its routes are put off: 0 or 1.',
    () => Number(index.stats().reading),
  )
}
