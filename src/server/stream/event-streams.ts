import { SharedCapacity } from '../../lib/fair-queue.ts'
import type { GaugeRegistry } from '../../lib/metrics.ts'
import type { Clock, Random } from '../../lib/time.ts'
import { Problem, problemOf } from '../http/problems.ts'
import type { ResponseStream, StreamConnection } from '../http/response-stream.ts'
import type { MessageBuffer } from './message-buffer.ts'
import { SOURCES, type StreamPosition } from './position.ts'
import { heartbeat, Subscriber } from './subscriber.ts'

/** The streams that clients have open: who gets new messages, and when a stream ends. */

/** Streams in all, and of one organization. */
const MAX_STREAMS = 500
const MAX_STREAMS_OF_ORGANIZATION = 200
/** A client that finds them taken. */
const RETRY_AFTER_SECONDS = 10
/** Messages that come within so many milliseconds share a write. */
const GATHER_MS = 20
const HEARTBEAT_MS = 15_000
/** The permission is checked as often: so a client without it reads on for about as long as a verdict about other requests may be old. */
const CHECK_MS = 5000
/**
 * A stream whose permission could not be checked gets no messages, and ends after this time: the API server may be restarting, and clients
 * might not reconnect.
 */
const UNCHECKED_MS = 60_000
/** Of problems that say that a client has no permission. */
const DENIED: readonly number[] = [401, 403, 404]
/** Of one write; a client that does not read holds about so much. */
const CHUNK = 32 * 1024
/** Clients reconnect after this time plus up to as much, so that they do not all come at once. */
const RECONNECT_MS = 1000

const TOO_MANY = 'Too many streams are open. Close some, or connect again later.'

/** Why a stream ends, in its last line. */
const LAST_WORDS = {
  slow: 'This connection was too slow. Connect again without Last-Event-ID, then list events and deliveries.',
  reading: 'Davit is rereading its log. Connect again with Last-Event-ID.',
  denied: 'The API token no longer has access to this stream, or Davit cannot verify that it does.',
  stopping: 'This server is shutting down. Connect again with Last-Event-ID.',
} as const

type Stream = {
  subscriber: Subscriber
  connection: StreamConnection
  /** The client has to read first. */
  isBlocked: boolean
  isOver: boolean
  /** When its permission was last found, monotonic. */
  checkedAt: number
  /** Whether the last check found it. */
  isAllowed: boolean
  beatAt: number
  stopTimer: () => void
}

export type StreamMessages = {
  /** @throws Problem `overloaded` while the log is being read */
  messageBuffer(): MessageBuffer
  /** The current version of etcd. @throws ApiError */
  currentVersion(): Promise<number>
  /** Called with the organization that has new messages; with undefined if all streams end. */
  onMessages: ((organization: string | undefined) => void) | undefined
}

type EventStreamsOptions = { messages: StreamMessages; clock: Clock; random: Pick<Random, 'fraction'> }

export class EventStreams {
  readonly #options: EventStreamsOptions
  readonly #capacity = new SharedCapacity(MAX_STREAMS, MAX_STREAMS_OF_ORGANIZATION)
  readonly #streams = new Map<string, Set<Stream>>()
  /** Organizations with new messages. */
  readonly #due = new Set<string>()
  #isStopping = false
  /** Streams that ended because their clients were too slow, since the start. */
  dropped = 0

  constructor(options: EventStreamsOptions) {
    this.#options = options
    options.messages.onMessages = (organization) => this.#gather(organization)
  }

  get size(): number {
    return this.#capacity.used
  }

  /**
   * @param from where the client continues; absent: with what happens from now on
   * @throws Problem `overloaded`, `rate_limited`, `cursor_expired`; ApiError
   */
  async open(organization: string, from: StreamPosition | undefined): Promise<ResponseStream> {
    const { messages } = this.#options
    if (from && isAhead(from, messages.messageBuffer().seen)) await this.#checkExists(from)
    const subscriber = new Subscriber(messages.messageBuffer(), organization, from)
    if (subscriber.isBehind) throw expired()
    this.#checkCapacity(organization)
    return (connection) => this.#start(subscriber, connection)
  }

  /** Ends all streams, and every later one when it has begun. Nothing waits for a client that does not read. */
  stop(): void {
    this.#isStopping = true
    for (const stream of this.#all()) {
      if (!stream.isBlocked) this.#end(stream, LAST_WORDS.stopping)
      else {
        this.#forget(stream)
        stream.connection.abort()
      }
    }
  }

  /** The watches here may be behind those of another replica; but after a restore of etcd, positions from before it are worthless. */
  async #checkExists(from: StreamPosition): Promise<void> {
    const version = await this.#options.messages.currentVersion()
    if (SOURCES.some((source) => from[source].version > version + 1)) throw expired()
  }

  #checkCapacity(organization: string): void {
    if (this.#capacity.hasRoom(organization)) return
    const code = this.#capacity.isFull ? 'overloaded' : 'rate_limited'
    throw new Problem(code, {
      detail: TOO_MANY,
      retryAfter: RETRY_AFTER_SECONDS,
    })
  }

  #start(subscriber: Subscriber, connection: StreamConnection): void {
    const { organization } = subscriber
    // Several may have been checked before the first of them began.
    if (!this.#capacity.hasRoom(organization)) {
      connection.end(`: ${TOO_MANY}\n\n`)
      return
    }
    const stream: Stream = {
      subscriber,
      connection,
      isBlocked: false,
      isOver: false,
      checkedAt: this.#options.clock.monotonic(),
      isAllowed: true,
      beatAt: this.#options.clock.monotonic() + HEARTBEAT_MS,
      stopTimer: () => undefined,
    }
    const own = this.#streams.get(organization) ?? new Set()
    this.#streams.set(organization, own.add(stream))
    this.#capacity.take(organization, 1)
    connection.onClose(() => this.#forget(stream))
    connection.onDrain(() => {
      stream.isBlocked = false
      this.#write(stream)
    })
    const reconnectMs = Math.round(RECONNECT_MS * (1 + this.#options.random.fraction()))
    this.#checkLater(stream)
    this.#send(stream, `retry: ${reconnectMs}\n${heartbeat(subscriber.position)}`)
    this.#write(stream)
    if (this.#isStopping) this.#end(stream, LAST_WORDS.stopping)
  }

  #checkLater(stream: Stream): void {
    const { clock } = this.#options
    stream.stopTimer = clock.after(CHECK_MS, () => {
      if (clock.monotonic() >= stream.beatAt) this.#beat(stream)
      if (stream.isOver) return
      void this.#check(stream)
      this.#checkLater(stream)
    })
  }

  #beat(stream: Stream): void {
    stream.beatAt += HEARTBEAT_MS
    this.#write(stream)
    if (!stream.isOver && !stream.isBlocked) this.#send(stream, heartbeat(stream.subscriber.position))
  }

  async #check(stream: Stream): Promise<void> {
    const { clock } = this.#options
    try {
      await stream.connection.authorize()
      stream.checkedAt = clock.monotonic()
      stream.isAllowed = true
      this.#write(stream)
    } catch (error) {
      stream.isAllowed = false
      const isDenied = DENIED.includes(problemOf(error).status)
      if (isDenied || clock.monotonic() - stream.checkedAt >= UNCHECKED_MS)
        this.#end(stream, LAST_WORDS.denied)
    }
  }

  #gather(organization: string | undefined): void {
    if (organization === undefined) {
      for (const stream of this.#all()) this.#write(stream)
      return
    }
    if (!this.#streams.has(organization)) return
    if (this.#due.size === 0) this.#options.clock.after(GATHER_MS, () => this.#writeDue())
    this.#due.add(organization)
  }

  #writeDue(): void {
    const due = [...this.#due]
    this.#due.clear()
    for (const organization of due)
      for (const stream of [...(this.#streams.get(organization) ?? [])]) this.#write(stream)
  }

  /** Writes what there is, as far as the client reads it. */
  #write(stream: Stream): void {
    const { subscriber } = stream
    while (!stream.isOver) {
      if (subscriber.isOver) this.#end(stream, LAST_WORDS.reading)
      else if (subscriber.isBehind) this.#drop(stream)
      else if (stream.isBlocked || !stream.isAllowed) return
      else {
        const text = subscriber.take(CHUNK)
        if (text === '') return
        this.#send(stream, text)
      }
    }
  }

  #drop(stream: Stream): void {
    this.dropped += 1
    this.#end(stream, LAST_WORDS.slow)
  }

  #send(stream: Stream, text: string): void {
    if (!stream.isOver) stream.isBlocked = !stream.connection.write(text)
  }

  #end(stream: Stream, why: string): void {
    if (stream.isOver) return
    this.#forget(stream)
    stream.connection.end(`: ${why}\n\n`)
  }

  #forget(stream: Stream): void {
    if (stream.isOver) return
    stream.isOver = true
    stream.stopTimer()
    const { organization } = stream.subscriber
    const own = this.#streams.get(organization)
    own?.delete(stream)
    if (own?.size === 0) this.#streams.delete(organization)
    this.#capacity.give(organization, 1)
  }

  #all(): Stream[] {
    return [...this.#streams.values()].flatMap((own) => [...own])
  }
}

function isAhead(position: StreamPosition, seen: StreamPosition): boolean {
  return SOURCES.some((source) => position[source].version > seen[source].version)
}

function expired(): Problem {
  return new Problem('cursor_expired', {
    detail:
      'Davit no longer has every message after this Last-Event-ID. Connect again without it, then list events and deliveries.',
  })
}

/** @property bytes of messages that are kept for clients that continue */
export type StreamStats = { open: number; dropped: number; bytes: number }

export function registerStreamGauges(
  registry: Pick<GaugeRegistry, 'gauge' | 'total'>,
  streams: { stats(): StreamStats },
): void {
  registry.gauge(
    'davit_streams_open',
    'Number of event streams that clients have open.',
    () => streams.stats().open,
  )
  registry.gauge(
    'davit_streams_limit',
    'Number of event streams that clients of this process may have open.',
    () => MAX_STREAMS,
  )
  registry.total(
    'davit_streams_dropped_total',
    'Number of event streams that were closed since the start because their clients were too slow.',
    () => streams.stats().dropped,
  )
  registry.gauge(
    'davit_stream_buffer_bytes',
    'Approximate memory of the messages that are kept for event streams, in bytes.',
    () => streams.stats().bytes,
  )
}
