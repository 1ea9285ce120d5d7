import { Client, type Dispatcher, Pool } from 'undici'
import type { ApiCallMetrics } from '../lib/metrics.ts'
import { type Clock, exponentialMs, type Random, sleep, within } from '../lib/time.ts'
import {
  type ClusterAccess,
  type Credentials,
  loadCluster,
  sameCredentials,
  type TlsMaterial,
} from './auth.ts'
import { ApiError, apiErrorFromResponse, isApiError } from './client.ts'

/** Calls and streams to the API server: which failed calls are repeated, connections, and HTTP. */

export type FailedAttempt = {
  error: ApiError
  /** Whether the server may have executed the request. */
  fate: 'not done' | 'unknown'
  /** Idempotent. */
  repeatable: boolean
  /** Attempts so far, 1 or more. */
  attempt: number
}

export const MAX_ATTEMPTS = 5
const WAITS = { firstMs: 50, longestMs: 1000 }

/**
 * The wait before the next attempt, or undefined to give up. A call that is not idempotent is repeated only if it
 * was surely not executed (429, or a refused connection).
 * @param chance uniform in [0, 1)
 */
export function retryWait(failed: FailedAttempt, chance: number): number | undefined {
  if (failed.attempt >= MAX_ATTEMPTS || !worthRepeating(failed)) return undefined
  const wait = failed.error.retryAfterMs ?? exponentialMs(failed.attempt, WAITS)
  return wait * (1 + chance / 2)
}

function worthRepeating({ error, fate, repeatable }: FailedAttempt): boolean {
  if (!isApiError(error, 'TooManyRequests', 'Unavailable')) return false
  return repeatable || fate === 'not done'
}

export type Verb = 'get' | 'list' | 'watch' | 'create' | 'patch' | 'delete'

/** `path` starts with `/api`; all names in it have been checked. */
export type ApiRequest = {
  verb: Verb
  /** Idempotent, as reads are by default. */
  repeatable?: boolean
  path: string
  body?: string
  contentType?: string
  accept?: string
}

export type TransportOptions = {
  access: ClusterAccess
  clock: Clock
  random: Random
  metrics?: ApiCallMetrics
  /** Connections for calls; each watch has one of its own. */
  connections?: number
  /** For all attempts of a call and the waits between them. */
  deadlineMs?: number
  maxResponseBytes?: number
  /** Called with the Date header of each response. */
  onDate?: ((date: string) => void) | undefined
}

/** A streamed response; each element has the chunks of one read. */
export type OpenStream = { chunks: AsyncIterable<Buffer[]>; close(error?: Error): void }

export interface Transport {
  /** The body of a 2xx. @throws ApiError */
  call(request: ApiRequest): Promise<Buffer>
  /** A stream on its own connection. @throws ApiError if the response is not 200 */
  open(request: ApiRequest, signal: AbortSignal): Promise<OpenStream>
  /** Ends all streams and, after the running calls, all connections. */
  close(): Promise<void>
}

const METHOD = {
  get: 'GET',
  list: 'GET',
  watch: 'GET',
  create: 'POST',
  patch: 'PATCH',
  delete: 'DELETE',
} as const
/** Below the 90 s after which the API server closes an idle connection, so that no write hits a closing one. */
const KEEP_ALIVE_MS = 60_000
const MAX_ERROR_BYTES = 64 * 1024

export function createTransport(options: TransportOptions): Transport {
  return new KubernetesTransport(options)
}

class KubernetesTransport implements Transport {
  readonly #access: ClusterAccess
  readonly #clock: Clock
  readonly #random: Random
  readonly #metrics: ApiCallMetrics | undefined
  readonly #connections: number
  readonly #deadlineMs: number
  readonly #maxBytes: number
  readonly #onDate: TransportOptions['onDate']
  readonly #streams = new Set<Client>()
  #pool: { pool: Pool; tls: TlsMaterial } | undefined

  constructor(options: TransportOptions) {
    this.#access = options.access
    this.#clock = options.clock
    this.#random = options.random
    this.#metrics = options.metrics
    this.#connections = options.connections ?? 32
    this.#onDate = options.onDate
    this.#deadlineMs = options.deadlineMs ?? 10_000
    this.#maxBytes = options.maxResponseBytes ?? 64 * 1024 * 1024
  }

  async call(request: ApiRequest): Promise<Buffer> {
    const deadline = this.#clock.monotonic() + this.#deadlineMs
    const repeatable = request.repeatable ?? (request.verb === 'get' || request.verb === 'list')
    let renewed = false
    for (let attempt = 1; ; attempt += 1) {
      const used = await this.#credentials(deadline)
      const outcome = await this.#attempt(request, used, deadline)
      if (Buffer.isBuffer(outcome)) return outcome
      if (!renewed && outcome.error.kind === 'Unauthorized' && (await this.#isNew(used, deadline))) {
        renewed = true
        continue
      }
      const wait = retryWait({ ...outcome, repeatable, attempt }, this.#random.fraction())
      if (wait === undefined || this.#clock.monotonic() + wait >= deadline) throw outcome.error
      await sleep(this.#clock, wait)
      // The process may have been suspended: others may count on nothing being sent after the deadline.
      if (this.#clock.monotonic() >= deadline) throw outcome.error
    }
  }

  async open(request: ApiRequest, signal: AbortSignal): Promise<OpenStream> {
    const started = this.#clock.monotonic()
    const used = await this.#credentials(started + this.#deadlineMs)
    const client = new Client(this.#access.origin, {
      allowH2: false,
      connect: { ...used.tls },
      headersTimeout: 0,
      bodyTimeout: 0,
    })
    this.#streams.add(client)
    const abort = () => close(new Error('aborted'))
    const close = (error?: Error) => {
      signal.removeEventListener('abort', abort)
      this.#streams.delete(client)
      void client.destroy(error ?? null)
    }
    signal.addEventListener('abort', abort)
    const stopTimer = this.#clock.after(this.#deadlineMs, () =>
      close(new Error('timed out while opening the stream')),
    )
    try {
      signal.throwIfAborted()
      const answer = await httpStream(client, this.#request(request, used))
      const { status, retryAfter, chunks } = answer
      this.#count(request.verb, String(status), started)
      if (status === 200) return { chunks, close }
      if (status === 401) this.#access.credentials.refused(used)
      throw apiErrorFromResponse(status, await readAtMost(chunks, MAX_ERROR_BYTES), retryAfter)
    } catch (error) {
      close()
      if (error instanceof ApiError) throw error
      this.#count(request.verb, 'error', started)
      throw unavailable('failed to open a stream from the API server', error)
    } finally {
      stopTimer()
    }
  }

  async close(): Promise<void> {
    const streams = [...this.#streams]
    this.#streams.clear()
    await Promise.all([...streams.map((client) => client.destroy()), this.#pool?.pool.close()])
  }

  async #attempt(
    request: ApiRequest,
    used: Credentials,
    deadline: number,
  ): Promise<Buffer | Pick<FailedAttempt, 'error' | 'fate'>> {
    const started = this.#clock.monotonic()
    try {
      const answer = await httpRequest(this.#poolFor(used.tls), this.#request(request, used), {
        clock: this.#clock,
        timeoutMs: Math.max(0, deadline - started),
        maxBytes: this.#maxBytes,
      })
      this.#count(request.verb, String(answer.status), started)
      if (answer.date !== undefined) this.#onDate?.(answer.date)
      if (answer.status >= 200 && answer.status < 300) return answer.body
      const error = apiErrorFromResponse(answer.status, answer.body, answer.retryAfter)
      return { error, fate: answer.status < 500 ? 'not done' : 'unknown' }
    } catch (error) {
      this.#count(request.verb, 'error', started)
      if (!(error instanceof HttpRequestError))
        throw unavailable('the request to the API server failed', error)
      const kind = error.why === 'too large' ? 'TooLarge' : 'Unavailable'
      const fate = error.sent ? 'unknown' : 'not done'
      return { error: new ApiError(kind, error.message, { cause: error }), fate }
    }
  }

  #request(request: ApiRequest, used: Credentials): HttpRequest {
    const headers = [...used.headers, 'accept', request.accept ?? 'application/json', 'user-agent', 'davit']
    if (request.body !== undefined) headers.push('content-type', request.contentType ?? 'application/json')
    return {
      method: METHOD[request.verb],
      path: this.#access.basePath + request.path,
      headers,
      body: request.body,
    }
  }

  /** A new client certificate needs new connections; the old ones end with their calls. */
  #poolFor(tls: TlsMaterial): Pool {
    if (this.#pool?.tls === tls) return this.#pool.pool
    void this.#pool?.pool.close()
    const pool = new Pool(this.#access.origin, {
      connections: this.#connections,
      allowH2: false,
      connect: { ...tls },
      connectTimeout: this.#deadlineMs,
      keepAliveTimeout: KEEP_ALIVE_MS,
      // Our own deadline covers both.
      headersTimeout: 0,
      bodyTimeout: 0,
    })
    this.#pool = { pool, tls }
    return pool
  }

  async #credentials(deadline: number): Promise<Credentials> {
    const current = this.#access.credentials.current()
    if (!(current instanceof Promise)) return current
    const left = Math.max(0, deadline - this.#clock.monotonic())
    return await within(this.#clock, left, current, () => unavailable('timed out while loading credentials'))
  }

  async #isNew(refused: Credentials, deadline: number): Promise<boolean> {
    this.#access.credentials.refused(refused)
    return !sameCredentials(refused, await this.#credentials(deadline))
  }

  #count(verb: Verb, code: string, started: number): void {
    this.#metrics?.apiCall(verb, code, (this.#clock.monotonic() - started) / 1000)
  }
}

async function readAtMost(chunks: AsyncIterable<Buffer[]>, limit: number): Promise<Buffer> {
  const read: Buffer[] = []
  let bytes = 0
  for await (const some of chunks) {
    read.push(...some)
    bytes += some.reduce((sum, { length }) => sum + length, 0)
    if (bytes >= limit) break
  }
  return Buffer.concat(read).subarray(0, limit)
}

function unavailable(what: string, cause?: unknown): ApiError {
  const why = cause instanceof Error ? `: ${cause.message || cause.name}` : ''
  return new ApiError('Unavailable', what + why, { cause })
}

export type ConnectOptions = Omit<TransportOptions, 'access'> & {
  /** Absent: the service account of the pod. */
  kubeconfigPath?: string | undefined
}

/** Connections of its own, made when they are needed. @throws Error when there is no way to a cluster */
export async function connectToCluster({ kubeconfigPath, ...options }: ConnectOptions): Promise<Transport> {
  return createTransport({ access: await loadCluster(options.clock, kubeconfigPath), ...options })
}

/**
 * HTTP to the API server on undici's `dispatch`, below its streams: half the CPU per call, and a watch does not pay
 * several promises per chunk for each segment of the log.
 */

export type HttpRequest = {
  method: 'GET' | 'POST' | 'PATCH' | 'DELETE'
  path: string
  headers: string[]
  body?: string | undefined
}

type HttpLimits = { clock: Clock; timeoutMs: number; maxBytes: number }

export type HttpResponse = {
  status: number
  retryAfter: string | undefined
  /** The Date header: the server's clock. */
  date: string | undefined
  body: Buffer
}

/** There was no complete response. */
class HttpRequestError extends Error {
  override readonly name = 'ExchangeError'
  /** False: no byte of the request was written, so it had no effect. */
  readonly sent: boolean
  readonly why: 'connection' | 'timeout' | 'too large'

  constructor(why: HttpRequestError['why'], message: string, details: { sent: boolean; cause?: unknown }) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause })
    this.why = why
    this.sent = details.sent
  }
}

/** One request and its whole response. @throws HttpRequestError */
export function httpRequest(
  dispatcher: Dispatcher,
  request: HttpRequest,
  limits: HttpLimits,
): Promise<HttpResponse> {
  return new Promise((resolve, reject) => {
    const { method, path, headers, body = null } = request
    const handler = new ResponseHandler(limits, resolve, reject)
    // Without `reset: false` undici closes the connection after each DELETE that has a body.
    dispatcher.dispatch({ method, path, headers, body, reset: false }, handler)
  })
}

class ResponseHandler implements Dispatcher.DispatchHandler {
  readonly #limits: HttpLimits
  readonly #resolve: (answer: HttpResponse) => void
  readonly #reject: (error: HttpRequestError) => void
  readonly #stopTimer: () => void
  readonly #chunks: Buffer[] = []
  #controller: Dispatcher.DispatchController | undefined
  #bytes = 0
  #status = 0
  #retryAfter: string | undefined
  #date: string | undefined
  #over = false

  constructor(limits: HttpLimits, resolve: (answer: HttpResponse) => void, reject: (error: Error) => void) {
    this.#limits = limits
    this.#resolve = resolve
    this.#reject = reject
    this.#stopTimer = limits.clock.after(limits.timeoutMs, () => {
      this.#fail('timeout', 'the API server did not respond in time')
    })
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    // It may have been queued for longer than its deadline.
    if (this.#over) controller.abort(new Error('timed out before the request was sent'))
    else this.#controller = controller
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: Record<string, string | string[] | undefined>,
  ): void {
    this.#status = status
    const { 'retry-after': retryAfter, date } = headers
    this.#retryAfter = typeof retryAfter === 'string' ? retryAfter : undefined
    this.#date = typeof date === 'string' ? date : undefined
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#bytes += chunk.length
    if (this.#bytes > this.#limits.maxBytes) {
      this.#fail('too large', `the response is larger than ${this.#limits.maxBytes} bytes`)
      return
    }
    this.#chunks.push(chunk)
  }

  onResponseEnd(): void {
    if (this.#over) return
    this.#end()
    const [first] = this.#chunks
    const body = first && this.#chunks.length === 1 ? first : Buffer.concat(this.#chunks, this.#bytes)
    this.#resolve({ status: this.#status, retryAfter: this.#retryAfter, date: this.#date, body })
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.#fail('connection', `no response from the API server: ${errorText(error)}`, error)
  }

  #fail(why: HttpRequestError['why'], message: string, cause?: Error): void {
    if (this.#over) return
    this.#end()
    const sent = this.#controller !== undefined
    this.#reject(new HttpRequestError(why, message, { sent, cause }))
    if (why !== 'connection') this.#controller?.abort(new Error(message))
  }

  #end(): void {
    this.#over = true
    this.#stopTimer()
  }
}

/** An AggregateError of several addresses has no message. */
export function errorText(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const code = 'code' in error && typeof error.code === 'string' ? error.code : undefined
  return error.message || code || error.name
}

/** The status and the body as it arrives: each element is what came since the last one. */
export type HttpStream = {
  status: number
  retryAfter: string | undefined
  chunks: AsyncIterable<Buffer[]>
}

/** Bytes that were not read yet; beyond them the connection is paused. */
const MAX_HELD_BYTES = 1024 * 1024

/**
 * One request and its response as a stream.
 * @throws Error of the connection before the status arrives; later the chunks throw it
 */
export function httpStream(
  dispatcher: Dispatcher,
  { method, path, headers }: HttpRequest,
): Promise<HttpStream> {
  const handler = new StreamHandler()
  dispatcher.dispatch({ method, path, headers, body: null }, handler)
  return handler.head
}

class StreamHandler
  implements Dispatcher.DispatchHandler, AsyncIterable<Buffer[]>, AsyncIterator<Buffer[], undefined>
{
  readonly #head = Promise.withResolvers<HttpStream>()
  readonly head = this.#head.promise
  #controller: Dispatcher.DispatchController | undefined
  #held: Buffer[] = []
  #bytes = 0
  #ended = false
  #error: Error | undefined
  /** Wakes the pending `next`. */
  #arrived: (() => void) | undefined;

  [Symbol.asyncIterator](): this {
    return this
  }

  /** No concurrent calls. */
  async next(): Promise<IteratorResult<Buffer[], undefined>> {
    // Chunks that arrive before the awaiting code runs are returned with the first.
    if (this.#held.length === 0 && !this.#ended)
      await new Promise<void>((resolve) => {
        this.#arrived = resolve
      })
    if (this.#held.length > 0) return { done: false, value: this.#take() }
    if (this.#error) throw this.#error
    return { done: true, value: undefined }
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: Record<string, string | string[] | undefined>,
  ): void {
    if (status < 200) return
    const { 'retry-after': retryAfter } = headers
    this.#head.resolve({
      status,
      retryAfter: typeof retryAfter === 'string' ? retryAfter : undefined,
      chunks: this,
    })
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#held.push(chunk)
    this.#bytes += chunk.length
    if (this.#bytes >= MAX_HELD_BYTES) controller.pause()
    this.#wake()
  }

  onResponseEnd(): void {
    this.#end()
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.#error = error
    this.#head.reject(error)
    this.#end()
  }

  #take(): Buffer[] {
    const taken = this.#held
    this.#held = []
    this.#bytes = 0
    this.#controller?.resume()
    return taken
  }

  #end(): void {
    this.#ended = true
    this.#wake()
  }

  #wake(): void {
    this.#arrived?.()
    this.#arrived = undefined
  }
}
