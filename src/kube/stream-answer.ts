import type { Dispatcher } from 'undici'
import type { HttpRequest } from './http.ts'

/** The head of an answer, and its body as it comes: each element is whatever has come since the one before. */
export type HttpStream = {
  status: number
  retryAfter: string | undefined
  chunks: AsyncIterable<Buffer[]>
}

/** Not taken yet; what comes then is left to the connection. */
const MAX_HELD_BYTES = 1024 * 1024

/**
 * One request, and its answer while it comes. On undici's `dispatch`, below its streams: every segment of the log comes to each
 * replica, and a stream takes several promises and turns for each chunk of one.
 * @throws Error of the connection before the head has come; later the chunks throw it
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
  /** Of who waits for the next chunk. */
  #arrived: (() => void) | undefined;

  [Symbol.asyncIterator](): this {
    return this
  }

  /** One at a time. */
  async next(): Promise<IteratorResult<Buffer[], undefined>> {
    // What comes between the wake-up and the turn of who waits is taken with it.
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
