import type { Dispatcher } from 'undici'
import { memoize } from '../../lib/memoize.ts'
import type { Clock } from '../../lib/time.ts'
import {
  type ConnectTarget,
  createAddressPolicy,
  targetOf,
  type WebhookNetworks,
} from '../../net/egress-policy.ts'
import { createResolver, type NameServer } from '../../net/resolver.ts'
import { type Connection, ConnectionPool, createDialTarget } from './connections.ts'
import {
  BLOCKED,
  CANCELED,
  type Failure,
  failureOf,
  latencyOf,
  type SendOutcome,
  type SendRequest,
  timeoutOf,
  type WebhookSender,
} from './send-failures.ts'

/** Sends webhooks: one POST under one deadline, to vetted addresses only, reading a bounded part of the response. */

export type WebhookSenderOptions = {
  networks: WebhookNetworks
  clock: Clock
  /** PEM of authorities trusted in addition to the known ones. */
  ca?: string | undefined
  /** Replaces DNS. */
  nameServer?: NameServer
  /** Idle connections in all. */
  maxIdleConnections?: number
}

export type ClosableWebhookSender = WebhookSender & {
  /** Cancels running attempts and closes every connection. */
  close(): Promise<void>
}

const MAX_IDLE_CONNECTIONS = 1000
/** A deadline timer this late shows that the process was suspended. */
const SUSPENDED_MS = 500
const READING_MS = 100
/** URLs whose parsed form is kept; endpoints send to the same few again and again. */
const MAX_TARGETS = 4096

/** @throws Error if a network is not a CIDR, or `ca` is not PEM */
export function createWebhookSender(options: WebhookSenderOptions): ClosableWebhookSender {
  const { clock, ca, nameServer: server } = options
  const policy = createAddressPolicy(options.networks)
  const resolve = createResolver({ clock, machineNames: policy.allowsInternalNames, server })
  const dialTarget = createDialTarget(policy, resolve, ca)
  const pool = new ConnectionPool(dialTarget, options.maxIdleConnections ?? MAX_IDLE_CONNECTIONS, clock)
  const parse = memoize(MAX_TARGETS, (url) => targetOf(url, policy))
  const active = new ActiveAttempts<Attempt>((attempt) => attempt.fail(CANCELED))
  let closed = false

  return {
    send(request, signal) {
      const decision = parse(request.url)
      if (!decision.ok) return Promise.resolve({ kind: 'failure', ...BLOCKED, latencyMs: 0 })
      if (closed || signal?.aborted) return Promise.resolve({ kind: 'failure', ...CANCELED, latencyMs: 0 })
      return run(request, decision.target, signal)
    },
    async close() {
      closed = true
      active.cancelAll()
      await pool.close()
    },
  }

  function run(
    request: SendRequest,
    target: ConnectTarget,
    signal: AbortSignal | undefined,
  ): Promise<SendOutcome> {
    return new Promise((settled) => {
      const attempt = new Attempt(request, target, pool, clock, (outcome) => {
        stopTimer()
        leave()
        settled(outcome)
      })
      // The client's own timeouts bound neither a body that trickles in nor a flood of interim responses.
      const stopTimer = atDeadline(clock, request.deadlineMs, () =>
        attempt.fail(timeoutOf(request.deadlineMs, attempt.hasHead)),
      )
      const leave = active.add(attempt, signal)
      try {
        attempt.start()
      } catch (error) {
        attempt.fail(failureOf(error, false, request.deadlineMs))
      }
    })
  }
}

/** @returns the call that stops the timer */
function atDeadline(clock: Pick<Clock, 'monotonic' | 'after'>, ms: number, end: () => void): () => void {
  const due = clock.monotonic() + ms
  let stop = clock.after(ms, () => {
    if (clock.monotonic() - due < SUSPENDED_MS) end()
    // A response that arrived in the meantime is in the socket, and is read only after the timers that are due.
    else stop = clock.after(READING_MS, end)
  })
  return () => stop()
}

/**
 * Running attempts and the signals that cancel them, in arrays with one listener per signal. A listener per attempt, or
 * a Set, would be a linked list inside: once one of its links has grown old, V8's minor collections keep everything
 * behind it until the next major one, which dominated the cost at thousands of attempts a second.
 */
export class ActiveAttempts<A> {
  readonly #cancel: (attempt: A) => void
  readonly #attempts: (A | undefined)[] = []
  readonly #signals: (AbortSignal | undefined)[] = []
  readonly #freeSlots: number[] = []
  readonly #observed = new WeakSet<AbortSignal>()

  /** @param cancel may call the function that `add` returned */
  constructor(cancel: (attempt: A) => void) {
    this.#cancel = cancel
  }

  /** @param signal not aborted, and one of few: its listener stays as long as it lives. @returns the call for when the attempt has ended */
  add(attempt: A, signal: AbortSignal | undefined): () => void {
    const slot = this.#freeSlots.pop() ?? this.#attempts.length
    this.#attempts[slot] = attempt
    this.#signals[slot] = signal
    if (signal && !this.#observed.has(signal)) {
      this.#observed.add(signal)
      signal.addEventListener('abort', () => this.#cancelFor(signal), { once: true })
    }
    let left = false
    return () => {
      if (left) return
      left = true
      this.#attempts[slot] = undefined
      this.#signals[slot] = undefined
      this.#freeSlots.push(slot)
    }
  }

  cancelAll(): void {
    for (const attempt of this.#attempts.slice()) if (attempt !== undefined) this.#cancel(attempt)
  }

  #cancelFor(signal: AbortSignal): void {
    const affected = this.#attempts.filter((_, slot) => this.#signals[slot] === signal)
    for (const attempt of affected) if (attempt !== undefined) this.#cancel(attempt)
  }
}

/** How much of a response body is kept: enough to see what went wrong. */
const KEPT_BYTES = 256

/** Harmless wherever it is displayed: line breaks and tabs become spaces, other control characters U+FFFD. */
export function responseText(head: Uint8Array): string {
  // Stream mode leaves out a character that was cut in half.
  const text = new TextDecoder().decode(head.subarray(0, KEPT_BYTES), { stream: true })
  return text.replace(/[\t\r\n]+/g, ' ').replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '\uFFFD')
}

/** As much of a URL as an error has room for. */
const KEPT_LOCATION = 200

/** @param header a list if the response has several */
function locationOf(header: unknown): string | undefined {
  const [first]: unknown[] = Array.isArray(header) ? header : [header]
  if (typeof first !== 'string' || first === '') return undefined
  const text = responseText(Buffer.from(first))
  return text.length > KEPT_LOCATION ? `${text.slice(0, KEPT_LOCATION)}…` : text
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
  #location: string | undefined
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
    this.#settle({ kind: 'failure', ...failure, latencyMs: latencyOf(failure, this.#latency()), ...code })
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
    this.#connection?.expectResponse()
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
    if (code < 400 && code >= 300) this.#location = locationOf(headers.location)
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
    const broken = connection.error ?? connection.socket?.errored
    if (broken) {
      this.fail(this.#failureOf(broken))
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
    const isConnectionError = failure.class === 'reset' || failure.class === 'tls'
    if (isConnectionError && this.#isStale()) this.#retry()
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
    const location = this.#location === undefined ? {} : { location: this.#location }
    this.#settle({ kind: 'response', code, latencyMs: this.#latency(), response, ...location })
  }

  #settle(outcome: SendOutcome): void {
    this.#done = true
    this.#settled(outcome)
  }

  #failureOf(error: Error): Failure {
    const isEnded = this.#connection?.socket?.readableEnded ?? false
    return failureOf(this.#connection?.error ?? error, isEnded, this.#request.deadlineMs)
  }

  #latency(): number {
    return this.#clock.monotonic() - this.#startedAt
  }
}
