import type { Socket } from 'node:net'
import { Client, type Dispatcher } from 'undici'
import type { Dial } from '../../net/dial.ts'
import type { ConnectTarget } from '../../net/egress-policy.ts'
import { CANCELED, type Failure, failureOf, type SendOutcome, type SendRequest } from './outcome.ts'

/** What is kept of a response: enough to see what a receiver said, harmless wherever it is shown. */

const KEPT_BYTES = 256

/** Line breaks and tabs become spaces, other control and invisible formatting characters the replacement character. */
export function responseText(head: Uint8Array): string {
  // In stream mode a character that the cut went through is left out.
  const text = new TextDecoder().decode(head.subarray(0, KEPT_BYTES), { stream: true })
  return text.replace(/[\t\r\n]+/g, ' ').replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '\uFFFD')
}

/** Adds to `head` what of `chunk` is still to be kept. The result shares no memory with a socket's buffer. */
export function keepHead(head: Uint8Array, chunk: Uint8Array): Uint8Array {
  if (head.length >= KEPT_BYTES) return head
  return Buffer.concat([head, chunk.subarray(0, KEPT_BYTES - head.length)])
}

/** One connection to an origin, for one exchange at a time. */
export type Connection = {
  readonly origin: string
  readonly client: Client
  /** The socket, connecting or connected; absent before the first exchange. */
  socket: Socket | undefined
  /** Exchanges that it has completed, since it was connected last. */
  completed: number
  /** Ends it, whatever it is doing. Resolves when the socket is closed. */
  destroy(): Promise<void>
}

/** How long a connection waits for the next exchange, unless the receiver announces less. */
const IDLE_MS = 30_000
const MAX_IDLE_MS = 60_000
/** A receiver that closes after n seconds is left this much earlier, so as not to meet its close. */
const IDLE_MARGIN_MS = 1000
const MAX_HEADER_BYTES = 16 * 1024

/** Connects with the first exchange, and again if the socket was closed in between. */
export function openConnection(target: ConnectTarget, dial: Dial): Connection {
  const client = new Client(target.origin, {
    pipelining: 1,
    maxHeaderSize: MAX_HEADER_BYTES,
    keepAliveTimeout: IDLE_MS,
    keepAliveMaxTimeout: MAX_IDLE_MS,
    keepAliveTimeoutThreshold: IDLE_MARGIN_MS,
    // The attempt has one deadline of its own over everything; these bound only gaps.
    headersTimeout: 0,
    bodyTimeout: 0,
    connect: (_options, callback) => {
      connection.completed = 0
      connection.socket = dial(target, (error, socket) =>
        socket ? callback(null, socket) : callback(error ?? new Error('not connected'), null),
      )
    },
  })
  const connection: Connection = {
    origin: target.origin,
    client,
    socket: undefined,
    completed: 0,
    destroy() {
      connection.socket?.destroy()
      return client.destroy()
    },
  }
  return connection
}

/** A response counts when so much of its body came (or all of it); the rest is not read. */
const MAX_BODY_BYTES = 16 * 1024

export type AttemptTools = {
  take(target: ConnectTarget): Connection
  open(target: ConnectTarget): Connection
  release(connection: Connection): void
  /** Milliseconds that do not go back. */
  monotonic(): number
}

const EMPTY = new Uint8Array()

/**
 * One attempt, as the handler of its exchange. It settles once: with the response when its body ended or 16 KB
 * of it came, else with the failure; the connection goes back only after a complete exchange.
 */
export class Attempt implements Dispatcher.DispatchHandler {
  readonly #request: SendRequest
  readonly #target: ConnectTarget
  readonly #tools: AttemptTools
  readonly #settled: (outcome: SendOutcome) => void
  readonly #startedAt: number
  #connection: Connection | undefined
  #code: number | undefined
  #answering = false
  #encoded = false
  #head: Uint8Array = EMPTY
  #received = 0
  #done = false

  constructor(
    request: SendRequest,
    target: ConnectTarget,
    tools: AttemptTools,
    settled: (outcome: SendOutcome) => void,
  ) {
    this.#request = request
    this.#target = target
    this.#tools = tools
    this.#settled = settled
    this.#startedAt = tools.monotonic()
  }

  /** Whether a response head has come. */
  get answering(): boolean {
    return this.#code !== undefined
  }

  start(): void {
    this.#exchange(this.#tools.take(this.#target))
  }

  /** Settles with `failure`, unless it has settled, and ends the connection. */
  fail(failure: Failure): void {
    if (this.#done) return
    const code = this.#code === undefined ? {} : { code: this.#code }
    this.#settle({
      kind: 'failure',
      class: failure.class,
      error: failure.error,
      latencyMs: this.#latency(),
      ...code,
    })
    void this.#connection?.destroy()
  }

  #exchange(connection: Connection): void {
    this.#connection = connection
    const { headers, body } = this.#request
    // Throws where a header is malformed.
    connection.client.dispatch(
      {
        path: this.#target.path,
        method: 'POST',
        headers,
        body: Buffer.from(body.buffer, body.byteOffset, body.byteLength),
      },
      this,
    )
  }

  /** The connection is there, and nothing has been written. */
  onRequestStart(controller: Dispatcher.DispatchController): void {
    if (this.#done || (this.#request.isWanted?.() ?? true)) return
    this.#settle({ kind: 'failure', ...CANCELED, latencyMs: this.#latency() })
    controller.abort(new Error('no longer wanted'))
    const connection = this.#connection
    queueMicrotask(() => void connection?.destroy())
  }

  onResponseStarted(): void {
    this.#answering = true
  }

  onResponseStart(_controller: unknown, code: number, headers: Record<string, unknown>): void {
    // Interim responses (103 and the like) are no answer.
    if (code < 200) return
    this.#code = code
    const encoding = headers['content-encoding']
    this.#encoded = encoding !== undefined && encoding !== 'identity'
  }

  onResponseData(_controller: unknown, chunk: Buffer): void {
    if (this.#done) return
    this.#head = keepHead(this.#head, chunk)
    this.#received += chunk.length
    if (this.#received < MAX_BODY_BYTES) return
    this.#respond()
    void this.#connection?.destroy()
  }

  onResponseEnd(): void {
    const connection = this.#connection
    if (this.#done || !connection) return
    // A body that ends with the connection must end it in order: a reset cut it off.
    if (connection.socket?.errored) {
      this.fail(this.#failureOf(connection.socket.errored))
      return
    }
    connection.completed += 1
    // A connection that may not be used again is closed right after this call.
    queueMicrotask(() => this.#tools.release(connection))
    this.#respond()
  }

  onResponseError(_controller: unknown, error: Error): void {
    if (this.#done) return
    const failure = this.#failureOf(error)
    if (failure.class === 'reset' && this.#isStale()) this.#again()
    else this.fail(failure)
  }

  /** Receivers close idle connections at any time: one that ends without a byte of an answer tells nothing of the receiver. */
  #isStale(): boolean {
    return !this.#answering && (this.#connection?.completed ?? 0) > 0
  }

  #again(): void {
    void this.#connection?.destroy()
    this.#exchange(this.#tools.open(this.#target))
  }

  #respond(): void {
    const code = this.#code ?? 0
    // Compressed bytes are not unpacked, and mean nothing to a reader.
    const response = this.#encoded ? '' : responseText(this.#head)
    this.#settle({ kind: 'response', code, latencyMs: this.#latency(), response })
  }

  #settle(outcome: SendOutcome): void {
    this.#done = true
    this.#settled(outcome)
  }

  #failureOf(error: Error): Failure {
    const ended = this.#connection?.socket?.readableEnded ?? false
    return failureOf(error, ended, this.#request.deadlineMs)
  }

  #latency(): number {
    return this.#tools.monotonic() - this.#startedAt
  }
}
