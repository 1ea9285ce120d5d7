import type { Dispatcher } from 'undici'
import type { Clock } from '../../lib/time.ts'
import type { ConnectTarget } from '../../net/egress-policy.ts'
import type { Connection, ConnectionPool } from './connections.ts'
import { CANCELED, type Failure, failureOf, type SendOutcome, type SendRequest } from './outcome.ts'

/** One HTTP attempt: writes the request, and reads as much of the response as is kept. */

/** How much of a response body is kept: enough to see what went wrong. */
const KEPT_BYTES = 256

/** Harmless wherever it is displayed: line breaks and tabs become spaces, other control characters U+FFFD. */
export function responseText(head: Uint8Array): string {
  // Stream mode leaves out a character that was cut in half.
  const text = new TextDecoder().decode(head.subarray(0, KEPT_BYTES), { stream: true })
  return text.replace(/[\t\r\n]+/g, ' ').replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '\uFFFD')
}

/** Appends `chunk` to `head` up to the limit. The result shares no memory with a socket's buffer. */
export function keepHead(head: Uint8Array, chunk: Uint8Array): Uint8Array {
  if (head.length >= KEPT_BYTES) return head
  return Buffer.concat([head, chunk.subarray(0, KEPT_BYTES - head.length)])
}

/** A response counts once this much of its body has arrived (or all of it); the rest is not read. */
const MAX_BODY_BYTES = 16 * 1024

const EMPTY = new Uint8Array()

/**
 * Settles once: with the response when its body has ended or 16 KB of it have arrived, otherwise with the failure. The
 * connection returns to the pool only after a complete response.
 */
export class Attempt implements Dispatcher.DispatchHandler {
  readonly #request: SendRequest
  readonly #target: ConnectTarget
  readonly #pool: Pick<ConnectionPool, 'take' | 'open' | 'release'>
  readonly #clock: Pick<Clock, 'monotonic'>
  readonly #settled: (outcome: SendOutcome) => void
  readonly #startedAt: number
  #connection: Connection | undefined
  #code: number | undefined
  #responding = false
  #encoded = false
  #head: Uint8Array = EMPTY
  #received = 0
  #done = false

  constructor(
    request: SendRequest,
    target: ConnectTarget,
    pool: Pick<ConnectionPool, 'take' | 'open' | 'release'>,
    clock: Pick<Clock, 'monotonic'>,
    settled: (outcome: SendOutcome) => void,
  ) {
    this.#request = request
    this.#target = target
    this.#pool = pool
    this.#clock = clock
    this.#settled = settled
    this.#startedAt = clock.monotonic()
  }

  /** Whether a response head has arrived. */
  get hasHead(): boolean {
    return this.#code !== undefined
  }

  start(): void {
    this.#dispatch(this.#pool.take(this.#target))
  }

  /** Settles with `failure` unless it has settled, and ends the connection. */
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

  #dispatch(connection: Connection): void {
    this.#connection = connection
    const { headers, body } = this.#request
    // Throws if a header is malformed.
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

  /** Connected, and nothing has been written yet. */
  onRequestStart(controller: Dispatcher.DispatchController): void {
    if (this.#done || (this.#request.isWanted?.() ?? true)) return
    this.#settle({ kind: 'failure', ...CANCELED, latencyMs: this.#latency() })
    controller.abort(new Error('no longer wanted'))
    const connection = this.#connection
    queueMicrotask(() => void connection?.destroy())
  }

  onResponseStarted(): void {
    this.#responding = true
  }

  onResponseStart(_controller: unknown, code: number, headers: Record<string, unknown>): void {
    // Interim responses (such as 103) do not count.
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
    // A body that ends with the connection must end in order: a reset cut it off.
    if (connection.socket?.errored) {
      this.fail(this.#failureOf(connection.socket.errored))
      return
    }
    connection.completed += 1
    // undici closes a connection that may not be reused right after this call.
    queueMicrotask(() => this.#pool.release(connection))
    this.#respond()
  }

  onResponseError(_controller: unknown, error: Error): void {
    if (this.#done) return
    const failure = this.#failureOf(error)
    if (failure.class === 'reset' && this.#isStale()) this.#retry()
    else this.fail(failure)
  }

  /** Receivers may close idle connections at any time: one that ends before the response says nothing about the receiver. */
  #isStale(): boolean {
    return !this.#responding && (this.#connection?.completed ?? 0) > 0
  }

  #retry(): void {
    void this.#connection?.destroy()
    this.#dispatch(this.#pool.open(this.#target))
  }

  #respond(): void {
    const code = this.#code ?? 0
    // Compressed bytes are not unpacked and would be unreadable.
    const response = this.#encoded ? '' : responseText(this.#head)
    this.#settle({ kind: 'response', code, latencyMs: this.#latency(), response })
  }

  #settle(outcome: SendOutcome): void {
    this.#done = true
    this.#settled(outcome)
  }

  #failureOf(error: Error): Failure {
    const isEnded = this.#connection?.socket?.readableEnded ?? false
    return failureOf(error, isEnded, this.#request.deadlineMs)
  }

  #latency(): number {
    return this.#clock.monotonic() - this.#startedAt
  }
}
