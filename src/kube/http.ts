import type { Dispatcher } from 'undici'
import type { Clock } from '../lib/time.ts'

/**
 * HTTP to the API server on undici's `dispatch`, below its streams: half the CPU per call, and a watch does not pay
 * several promises per chunk for each segment of the log.
 */

export type HttpRequest = {
  method: 'GET' | 'POST' | 'PATCH' | 'DELETE'
  path: string
  headers: string[]
  body?: string
}

export type HttpLimits = { clock: Clock; timeoutMs: number; maxBytes: number }

export type HttpResponse = {
  status: number
  retryAfter: string | undefined
  /** The Date header: the server's clock. */
  date: string | undefined
  body: Buffer
}

/** There was no complete response. */
export class HttpRequestError extends Error {
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
      this.#fail('timeout', 'the API server did not answer in time')
    })
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    // It may have been queued for longer than its deadline.
    if (this.#over) controller.abort(new Error('given up before it was sent'))
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
    this.#fail('connection', `no answer from the API server: ${errorText(error)}`, error)
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
