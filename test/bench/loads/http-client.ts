/** A client of the REST server with persistent connections. It uses undici's `dispatch` to need little CPU. */
import { type Dispatcher, Pool } from 'undici'

export type HttpRequest = {
  method: 'GET' | 'POST' | 'PATCH' | 'DELETE'
  path: string
  /** Absent: none is sent. */
  key?: string
  /** JSON. */
  body?: string
}

/** A request, and the status that it should be answered with. */
export type Asked = HttpRequest & { wanted: number }

export type HttpAnswer = { status: number; text: string }

/** As long as the REST server's own clients may wait. */
const ANSWER_MS = 40_000

export class HttpClient {
  readonly #pool: Pool

  /**
   * @param connections requests at a time; more wait for one of them
   * @param ca PEM of the authority of an https server; absent: those that Node trusts
   */
  constructor(baseUrl: string, connections: number, ca?: string) {
    this.#pool = new Pool(baseUrl, {
      connections,
      headersTimeout: ANSWER_MS,
      bodyTimeout: ANSWER_MS,
      // The REST server has HTTP/1.1 only, which spares an https client the question.
      allowH2: false,
      ...(ca === undefined ? {} : { connect: { ca } }),
    })
  }

  /** @throws Error when there is no whole answer */
  send({ method, path, key, body }: HttpRequest): Promise<HttpAnswer> {
    const headers: string[] = []
    if (key !== undefined) headers.push('authorization', key)
    if (body !== undefined) headers.push('content-type', 'application/json')
    return new Promise((resolve, reject) => {
      this.#pool.dispatch({ method, path, headers, body: body ?? null }, new Handler(resolve, reject))
    })
  }

  close(): Promise<void> {
    return this.#pool.close()
  }
}

class Handler implements Dispatcher.DispatchHandler {
  readonly #resolve: (answer: HttpAnswer) => void
  readonly #reject: (error: Error) => void
  readonly #chunks: Buffer[] = []
  #status = 0

  constructor(resolve: (answer: HttpAnswer) => void, reject: (error: Error) => void) {
    this.#resolve = resolve
    this.#reject = reject
  }

  onRequestStart(): void {}

  onResponseStart(_controller: Dispatcher.DispatchController, status: number): void {
    this.#status = status
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#chunks.push(chunk)
  }

  onResponseEnd(): void {
    this.#resolve({ status: this.#status, text: Buffer.concat(this.#chunks).toString('utf8') })
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.#reject(error)
  }
}

/** The answer's body. @throws Error with it when the status is another */
export function bodyOf({ status, text }: HttpAnswer, wanted: number): unknown {
  if (status !== wanted) throw new Error(`answered with ${status}: ${text.slice(0, 500)}`)
  return text === '' ? undefined : JSON.parse(text)
}
