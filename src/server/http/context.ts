import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Request, Response } from 'express'
import type { Clock } from '../../lib/clock.ts'
import type { Logger } from '../../lib/log.ts'
import type { Client } from './auth.ts'
import { type RateLimitResult, rateLimitHeaders } from './limits.ts'
import { Problem, problemBody } from './problems.ts'
import type { RawUrl } from './request.ts'

export type HttpResponse = {
  status: number
  contentType?: string
  body?: string | Uint8Array
  headers?: Readonly<Record<string, string>>
}

/** What a client that was refused may go on sending before its connection is closed. */
const DRAINED_BYTES = 1024 * 1024

/**
 * Sends an answer. None may be kept by anybody: some of them hold a secret, all of them are one caller's.
 * The rest of a body that was not wanted is read and thrown away, since closing at once would take the answer
 * from a client that is still sending.
 */
export function send(request: IncomingMessage, response: ServerResponse, answer: HttpResponse): void {
  if (response.headersSent || response.destroyed) return
  if (!request.complete) drain(request)
  const body = answer.body ?? ''
  const headers: Record<string, string | number> = {
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    ...answer.headers,
  }
  if (answer.body !== undefined) headers['content-type'] = answer.contentType ?? 'application/json'
  if (answer.status !== 204) headers['content-length'] = Buffer.byteLength(body)
  response.writeHead(answer.status, headers)
  response.end(request.method === 'HEAD' ? undefined : body)
}

/** With a line break, so that what follows on a terminal has a line of its own. */
export function jsonLine(value: unknown): string {
  return `${JSON.stringify(value)}\n`
}

export function problemResponse(problem: Problem, requestId: string): HttpResponse {
  return {
    status: problem.status,
    contentType: 'application/problem+json',
    body: jsonLine(problemBody(problem, requestId)),
    headers: problem.headers,
  }
}

function drain(request: IncomingMessage): void {
  let left = DRAINED_BYTES
  request.on('data', (chunk: Uint8Array) => {
    left -= chunk.length
    if (left < 0) request.destroy()
  })
  request.resume()
}

type RequestContextOptions = {
  requestId: string
  /** Monotonic, in milliseconds. */
  startedAt: number
  /** Called once: nobody waits for an answer any more, and none is being made. */
  onAnswered(): void
  /** Called once, after that: what was begun for the request has ended as well. */
  onOver(): void
}

/**
 * One request and what is known of it so far. It goes on when its client has gone: what it holds is given back, and
 * its end is told, only when nothing runs for it any more.
 */
export class RequestContext {
  readonly requestId: string
  readonly startedAt: number
  /** The operation's id, once it is known. */
  route = 'none'
  /** Once the client was let in. */
  organization: string | undefined
  url: RawUrl = { path: '', search: '' }
  client: Client | undefined
  /** What is left of the limits that the request counted for. */
  readonly limits: Record<string, { taken: RateLimitResult; perSecond: number }> = {}
  /** What was begun for it; goes on when time is up. */
  work: Promise<unknown> | undefined
  readonly #options: RequestContextOptions
  readonly #releases: (() => void)[] = []
  #isClosed = false
  #isReplied = false
  #isAnswered = false
  #isOver = false

  constructor(options: RequestContextOptions) {
    this.requestId = options.requestId
    this.startedAt = options.startedAt
    this.#options = options
  }

  /** @param release gives back what the request holds, once it is over */
  onRelease(release: () => void): void {
    if (this.#isOver) release()
    else this.#releases.push(release)
  }

  /** The answer is out, or its client has gone. */
  closed(): void {
    this.#isClosed = true
    this.#settle()
  }

  /** Nothing more will be done to answer it. */
  replied(): void {
    this.#isReplied = true
    this.#settle()
  }

  #settle(): void {
    if (!this.#isClosed || !this.#isReplied || this.#isAnswered) return
    this.#isAnswered = true
    this.#options.onAnswered()
    const end = () => this.#end()
    if (this.work) this.work.then(end, end)
    else end()
  }

  #end(): void {
    this.#isOver = true
    for (const release of this.#releases.splice(0)) release()
    this.#options.onOver()
  }
}

const KEY = 'exchange'

export function attachContext(response: Response, exchange: RequestContext): void {
  response.locals[KEY] = exchange
}

export function contextOf(response: Pick<Response, 'locals'>): RequestContext {
  return response.locals[KEY] as RequestContext
}

/** Call it before anything is begun for a client. @throws Problem bad_request, which nobody will read */
export function refuseGone({ socket }: IncomingMessage): void {
  if (socket.destroyed) throw new Problem('bad_request', { detail: 'The client left.' })
}

/** Sends the one answer of an exchange. */
export function reply(
  request: IncomingMessage,
  response: ServerResponse & Pick<Response, 'locals'>,
  answer: HttpResponse,
): void {
  const exchange = contextOf(response)
  const { requestId, limits } = exchange
  send(request, response, {
    ...answer,
    headers: {
      'x-request-id': requestId,
      ...(Object.keys(limits).length === 0 ? {} : rateLimitHeaders(limits)),
      ...answer.headers,
    },
  })
  exchange.replied()
}

/** What is counted of requests. Label values are from small closed sets. */
export interface RequestMetrics {
  /** @param route id of the operation, `none` if no route matches @param seconds until the response was complete */
  answered(route: string, status: number, seconds: number): void
}

export type RequestEndOptions = {
  clock: Pick<Clock, 'monotonic'>
  log: Logger
  metrics?: RequestMetrics
}

/** What nginx, too, writes of a client that has gone before it was answered. */
const CLIENT_GONE = 499

/**
 * How the end of a request is told. Changes go to the log, by whom, when they are done; events are too many for that
 * and are in the delivery log anyway.
 */
export function requestEnd(
  { clock, log, metrics }: RequestEndOptions,
  { method }: Request,
  response: Response,
): Pick<RequestContextOptions, 'onAnswered' | 'onOver'> {
  const seconds = ({ startedAt }: RequestContext) => (clock.monotonic() - startedAt) / 1000
  return {
    onAnswered: () => {
      const exchange = contextOf(response)
      metrics?.answered(exchange.route, statusOf(response), seconds(exchange))
    },
    onOver: () => {
      const exchange = contextOf(response)
      const { route, requestId, organization, client } = exchange
      if (!isChange(method, route) || organization === undefined) return
      const { name: caller, keyId } = client?.caller ?? {}
      const fields = { requestId, route, organization, caller, keyId, status: statusOf(response) }
      log.info('a change was asked for', { ...fields, ms: Math.round(seconds(exchange) * 1000) })
    },
  }
}

function isChange(method: string, route: string): boolean {
  return method !== 'GET' && method !== 'HEAD' && route !== 'none' && route !== 'publishEvent'
}

function statusOf(response: Response): number {
  return response.writableFinished ? response.statusCode : CLIENT_GONE
}
