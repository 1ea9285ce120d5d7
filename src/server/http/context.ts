import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Response } from 'express'
import { type HttpResponse, send } from './answer.ts'
import type { Client } from './auth.ts'
import { Problem } from './problems.ts'
import { type RateLimitResult, rateLimitHeaders } from './rate-limit.ts'
import type { RawUrl } from './request.ts'

export type RequestContextOptions = {
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
