import { Client, Pool } from 'undici'
import type { ApiCallMetrics } from '../lib/metrics.ts'
import { type Clock, exponentialMs, type Random, sleep, within } from '../lib/time.ts'
import {
  type ClusterAccess,
  type Credentials,
  loadCluster,
  sameCredentials,
  type TlsMaterial,
} from './auth.ts'
import { ApiError, type ApiErrorKind, isApiError } from './client.ts'
import { type HttpRequest, HttpRequestError, httpRequest, httpStream } from './http.ts'

/** Calls and streams to the API server: errors from responses, which failed calls are repeated, and connections. */

/** The parts of a `Status` that tell errors apart. */
type Status = {
  code?: unknown
  reason?: unknown
  message?: unknown
  details?: { retryAfterSeconds?: unknown; causes?: unknown } | null
}

const MAX_MESSAGE = 1_000
const MAX_RETRY_AFTER_MS = 10 * 60_000

/** A message about the caller, not about the object. */
const LACKS_RIGHT = /\bUser "[^"]*" cannot \w+ resource\b/

const BY_CODE: Record<number, ApiErrorKind> = {
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'NotFound',
  409: 'Conflict',
  410: 'Gone',
  413: 'TooLarge',
  422: 'Invalid',
  429: 'TooManyRequests',
}

/** The error of a response that is not 2xx. @param retryAfter the header */
export function apiErrorFromResponse(code: number, body: Buffer, retryAfter?: string): ApiError {
  return apiErrorFromStatus(parseStatus(body), { code, retryAfter, from: `the API server answered ${code}` })
}

/** The error in an ERROR event of a watch. */
export function apiErrorFromEvent(object: unknown): ApiError {
  const status = isObject(object) ? (object as Status) : {}
  const code = typeof status.code === 'number' ? status.code : 500
  const error = apiErrorFromStatus(status, { code, from: 'the watch ended with an error' })
  // The response was 200: the error is in the stream, and may come again from the same version.
  return new ApiError(error.kind, error.message, { ...retryOf(error), status: 200 })
}

function retryOf(error: ApiError): { retryAfterMs?: number } {
  return error.retryAfterMs === undefined ? {} : { retryAfterMs: error.retryAfterMs }
}

function apiErrorFromStatus(
  status: Status,
  response: { code: number; retryAfter?: string | undefined; from: string },
): ApiError {
  const message = typeof status.message === 'string' ? status.message : response.from
  const retryAfterMs = waitOf(status, response.retryAfter)
  const kind = kindOf(status, response.code, message)
  return new ApiError(kind, message.slice(0, MAX_MESSAGE), {
    status: response.code,
    ...(kind === 'Forbidden' && LACKS_RIGHT.test(message) ? { lacksRight: true } : {}),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  })
}

function kindOf(status: Status, code: number, message: string): ApiErrorKind {
  const causes = causesOf(status)
  if (code === 409 && status.reason === 'AlreadyExists') return 'AlreadyExists'
  if (code === 403) return forbiddenKind(causes, message)
  // After a restore of etcd the version can lie in the future: only a new list helps.
  if (causes.includes('ResourceVersionTooLarge')) return 'Gone'
  if (code >= 500) return storeKind(message)
  return BY_CODE[code] ?? 'BadRequest'
}

/** None of them has a reason: one has a cause, the others only a message. */
function forbiddenKind(causes: readonly unknown[], message: string): ApiErrorKind {
  if (causes.includes('NamespaceTerminating')) return 'Terminating'
  if (/exceeded quota: |status unknown for quota: /.test(message)) return 'Quota'
  // An admission webhook rejects the object, with whatever status; the default is 403.
  return /^admission webhook "[^"]*" denied the request/.test(message) ? 'Invalid' : 'Forbidden'
}

/** Errors of etcd arrive as a 500 with their text. */
function storeKind(message: string): ApiErrorKind {
  if (message.includes('database space exceeded')) return 'NoSpace'
  if (
    message.includes('request is too large') ||
    message.includes('trying to send message larger than max')
  ) {
    return 'TooLarge'
  }
  return 'Unavailable'
}

function causesOf(status: Status): unknown[] {
  const causes = status.details?.causes
  return Array.isArray(causes) ? causes.map((cause) => (isObject(cause) ? cause.reason : undefined)) : []
}

function waitOf(status: Status, header: string | undefined): number | undefined {
  const seconds = header === undefined ? status.details?.retryAfterSeconds : Number(header)
  if (typeof seconds !== 'number' || !(seconds > 0)) return undefined
  return Math.min(seconds * 1000, MAX_RETRY_AFTER_MS)
}

function parseStatus(body: Buffer): Status {
  try {
    const parsed: unknown = JSON.parse(body.toString('utf8'))
    return isObject(parsed) ? (parsed as Status) : {}
  } catch {
    // Some errors are plain text, such as those of a proxy in front.
    const text = body.toString('utf8', 0, MAX_MESSAGE).trim()
    return text === '' ? {} : { message: text }
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}

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
    const stopTimer = this.#clock.after(this.#deadlineMs, () => close(new Error('not opened in time')))
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
      throw unavailable('no stream from the API server', error)
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
      if (!(error instanceof HttpRequestError)) throw unavailable('the call failed', error)
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
      ...(request.body === undefined ? {} : { body: request.body }),
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
    return await within(this.#clock, left, current, () => unavailable('no credentials in time'))
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

export function unavailable(what: string, cause?: unknown): ApiError {
  const why = cause instanceof Error ? `: ${cause.message || cause.name}` : ''
  return new ApiError('Unavailable', what + why, cause === undefined ? {} : { cause })
}

export type ConnectOptions = Omit<TransportOptions, 'access'> & {
  /** Absent: the service account of the pod. */
  kubeconfigPath?: string
}

/** Connections of its own, made when they are needed. @throws Error when there is no way to a cluster */
export async function connectToCluster({ kubeconfigPath, ...options }: ConnectOptions): Promise<Transport> {
  const { clock } = options
  const access = await loadCluster(kubeconfigPath === undefined ? { clock } : { clock, kubeconfigPath })
  return createTransport({ access, ...options })
}
