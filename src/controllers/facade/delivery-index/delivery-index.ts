/** The log of every endpoint as one list, over what lies in segments and what has an object. */
import type { AcceptedEvent } from '../../../api/delivery-segment.ts'
import { nameOfMessage } from '../../../domain/message-id.ts'
import type {
  DeliveryDetail,
  DeliveryIndex,
  DeliveryPlaces,
  LoggedEndpoint,
  LogPage,
  LogQuery,
  OwnAppends,
} from '../../../ports/delivery-index.ts'
import type { Appended } from '../../../ports/delivery-log.ts'
import { isApiError } from '../../../ports/kubernetes.ts'
import { RefusedError } from '../../../ports/refused-error.ts'
import type { ReflectorNeeds } from '../../../runtime/reflector.ts'
import { IndexReading } from './index-reading.ts'
import { endedIn, NONE } from './line-table.ts'
import { logPage } from './log-page.ts'
import { packedName } from './packed-id.ts'
import { readDetail } from './read-detail.ts'

export type DeliveryIndexOptions = {
  needs: ReflectorNeeds
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
}

export class OpenDeliveryIndex implements DeliveryIndex, OwnAppends, DeliveryPlaces {
  /** Everything was read once. */
  readonly ready: Promise<void>
  readonly #options: DeliveryIndexOptions
  readonly #ready = Promise.withResolvers<void>()
  #reading: IndexReading
  #restarts = 0
  #dropped = 0
  #stopped = false
  /** Readings that were given up. */
  #ending: Promise<unknown> = Promise.resolve()

  constructor(options: DeliveryIndexOptions) {
    this.#options = options
    this.ready = this.#ready.promise
    this.#reading = this.#newReading()
  }

  start(): this {
    this.#reading.start()
    return this
  }

  /** What is still to be read, in words for /readyz; undefined when it is ready. */
  get progress(): string | undefined {
    return this.#reading.progress
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
    const { needs, namespace } = this.#options
    try {
      return await readDetail({ lines: this.#lines(), api: needs.api, namespace }, endpoint, deliveryId)
    } catch (cause) {
      if (!isApiError(cause)) throw cause
      throw new RefusedError('unavailable', { detail: 'The cluster does not answer.', cause })
    }
  }

  appended(place: Appended, events: readonly AcceptedEvent[]): void {
    this.#reading.lines.appended(place, events)
  }

  segmentOf(endpoint: LoggedEndpoint, deliveryId: string): string | undefined {
    const { lines } = this.#reading.lines
    const id = packedName(nameOfMessage(deliveryId) ?? '')
    const line = (id && lines.logs.find(endpoint.namespace, endpoint.uid)?.lines.find(id)) ?? NONE
    return line === NONE ? undefined : lines.segments.at(lines.table.segment(line))?.name
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
      bytes: table.bytes + logs.bytes,
      dropped: this.#dropped + lines.dropped,
      restarts: this.#restarts,
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
    void reading.ready.then(this.#ready.resolve)
    return reading
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
