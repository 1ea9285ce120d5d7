import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Logger } from '../../lib/log.ts'
import type { Clock } from '../../lib/time.ts'
import type { Client } from './auth.ts'
import { ArrivingBody } from './body.ts'
import type { RateLimitResult } from './limits.ts'
import { Problem } from './problems.ts'
import type { RawUrl } from './request.ts'

/** One request: what is known of it while it is served, and how its end is reported. */

/** Counts requests. Label values are from small closed sets. */
export interface RequestMetrics {
  /** @param route id of the operation, `none` if no route matches @param seconds until the response was complete */
  answered(route: string, status: number, seconds: number): void
}

type RequestContextOptions = {
  clock: Pick<Clock, 'monotonic'>
  log: Logger
  metrics?: RequestMetrics
}

/** One request. It outlives its client: resources are released, and its end is reported, when nothing runs for it any more. */
export class RequestContext {
  readonly requestId: string
  readonly body: ArrivingBody
  /** Id of the operation, once known. */
  route = 'none'
  /** Once the client is authorized. */
  organization: string | undefined
  url: RawUrl = { path: '', search: '' }
  client: Client | undefined
  /** The rate limits that the request counted against. */
  readonly limits: Record<string, { taken: RateLimitResult; perSecond: number }> = {}
  /** The handler, which continues after the time limit. */
  work: Promise<unknown> | undefined
  readonly #method: string | undefined
  readonly #response: ServerResponse
  readonly #options: RequestContextOptions
  /** Monotonic, in milliseconds. */
  readonly #startedAt: number
  readonly #releases: (() => void)[] = []
  #isClosed = false
  #isReplied = false
  #isAnswered = false
  #isOver = false

  constructor(
    requestId: string,
    request: IncomingMessage,
    response: ServerResponse,
    options: RequestContextOptions,
  ) {
    this.requestId = requestId
    this.body = new ArrivingBody(request)
    this.#method = request.method
    this.#response = response
    this.#options = options
    this.#startedAt = options.clock.monotonic()
  }

  /** Calls `release` at the end of the request. */
  onRelease(release: () => void): void {
    if (this.#isOver) release()
    else this.#releases.push(release)
  }

  /** The response was sent, or the client left. */
  closed(): void {
    this.#isClosed = true
    this.#settle()
  }

  /** The handler has replied. */
  replied(): void {
    this.#isReplied = true
    this.#settle()
  }

  /** The response has begun and goes on: it counts as answered, and no longer as a request in progress. */
  streaming(): void {
    this.#isAnswered = true
    this.#options.metrics?.answered(this.route, this.#response.statusCode, this.#seconds())
    this.#end()
  }

  /** The response was sent or the client left, and the handler has returned. */
  #settle(): void {
    if (!this.#isClosed || !this.#isReplied || this.#isAnswered) return
    this.#isAnswered = true
    this.#options.metrics?.answered(this.route, statusOf(this.#response), this.#seconds())
    const end = () => this.#end()
    if (this.work) this.work.then(end, end)
    else end()
  }

  /** The work of a late handler has ended as well. */
  #end(): void {
    this.#isOver = true
    for (const release of this.#releases.splice(0)) release()
    this.#logChange()
  }

  /** Logs who asked for which change. Published events are too many for that, and in the delivery log anyway. */
  #logChange(): void {
    const { requestId, route, organization, client } = this
    if (!isChange(this.#method, route) || organization === undefined) return
    const { name: caller, keyId } = client?.caller ?? {}
    const fields = { requestId, route, organization, caller, keyId, status: statusOf(this.#response) }
    this.#options.log.info('change_requested', 'handled change request', {
      ...fields,
      ms: Math.round(this.#seconds() * 1000),
    })
  }

  #seconds(): number {
    return (this.#options.clock.monotonic() - this.#startedAt) / 1000
  }
}

const CONTEXT = Symbol('context')

export function attachContext(response: ServerResponse, context: RequestContext): void {
  Object.assign(response, { [CONTEXT]: context })
}

export function contextOf(response: ServerResponse): RequestContext {
  return (response as ServerResponse & { [CONTEXT]: RequestContext })[CONTEXT]
}

/** Call it before work for a client begins. @throws Problem bad_request, which the client will not read */
export function refuseGone({ socket }: IncomingMessage): void {
  if (socket.destroyed) throw new Problem('bad_request', { detail: 'The client disconnected.' })
}

/** As nginx reports a client that left before the response. */
const CLIENT_GONE = 499

function isChange(method: string | undefined, route: string): boolean {
  return method !== 'GET' && method !== 'HEAD' && route !== 'none' && !route.startsWith('publishEvent')
}

function statusOf(response: ServerResponse): number {
  return response.writableFinished ? response.statusCode : CLIENT_GONE
}
