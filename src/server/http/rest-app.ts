import express, { type ErrorRequestHandler, type Express, type RequestHandler } from 'express'
import type { AccessReviewer } from '../../kube/access-review.ts'
import type { TokenReviewer } from '../../kube/token-review.ts'
import type { Clock, Random } from '../../lib/ports-clock.ts'
import type { Logger } from '../../lib/ports-log.ts'
import { problemResponse } from './answer.ts'
import { countAgainstLimit, type RouteParts, runRoute } from './app.ts'
import { createAuthenticator } from './auth.ts'
import { createAuthorizer } from './authorize.ts'
import { attachContext, contextOf, RequestContext, refuseGone, reply } from './context.ts'
import type { KnownOrganizations, RequestMetrics } from './facade.ts'
import { REQUEST_LIMITS, type RequestLimits } from './facade-limits.ts'
import { InFlightLimiter } from './load.ts'
import { openPages } from './open-pages.ts'
import { problemOf } from './problem-of.ts'
import { Problem, type ProblemCode } from './problems.ts'
import { KeyedRateLimiter } from './rate-limit.ts'
import { readRawUrl } from './request.ts'
import { requestEnd } from './request-end.ts'
import { createRequestIds } from './request-id.ts'
import type { Route } from './route.ts'

export type AppOptions = {
  routes: readonly Route[]
  /** Of Davit, for the document. */
  version: string
  tokens: TokenReviewer
  access: AccessReviewer
  organizations: KnownOrganizations
  clock: Clock
  random: Random
  log: Logger
  metrics?: RequestMetrics
  /** Of the installation: under which keys are hashed for limits and logs. */
  hashKey: Uint8Array
  limits?: Partial<RequestLimits>
}

type Parts = RouteParts & Pick<AppOptions, 'random' | 'log' | 'metrics'> & { perKey: KeyedRateLimiter }

/** The routes as an Express app: everything that a request goes through is in the order of this function. */
export function createApp(options: AppOptions): Express {
  const { clock, hashKey, tokens, random, log } = options
  const limits = { ...REQUEST_LIMITS, ...options.limits }
  const authenticate = createAuthenticator({ tokens, clock, hashKey })
  const parts: Parts = {
    clock,
    random,
    log,
    limits,
    authorize: createAuthorizer(options),
    load: new InFlightLimiter({ requests: limits.requests, bytes: limits.bytesInFlight }),
    perKey: new KeyedRateLimiter({ clock, perSecond: limits.perKey }),
    perOrganization: new KeyedRateLimiter({ clock, perSecond: limits.perOrganization }),
    ...(options.metrics ? { metrics: options.metrics } : {}),
  }
  const app = express()
  app.disable('x-powered-by').disable('etag').set('query parser', false)
  app.enable('case sensitive routing').enable('strict routing')
  app.use(beginning(parts))
  app.use(openPages(options.routes, options.version))
  app.use(async (request, response, next) => {
    const exchange = contextOf(response)
    exchange.client = await authenticate(request.rawHeaders)
    refuseGone(request)
    countAgainstLimit(exchange, 'key', { limit: parts.perKey, of: exchange.client.caller.keyId })
    next()
  })
  addRoutes(app, options.routes, parts)
  app.use(() => {
    throw new Problem('not_found')
  })
  app.use(failing(log, clock))
  return app
}

/** Names the request, and looks whether there is room for it and its URL is one. */
function beginning(parts: Parts): RequestHandler {
  const nextId = createRequestIds(parts.random)
  return (request, response, next) => {
    const exchange = new RequestContext({
      requestId: nextId(),
      startedAt: parts.clock.monotonic(),
      ...requestEnd(parts, request, response),
    })
    attachContext(response, exchange)
    response.once('close', () => exchange.closed())
    exchange.onRelease(parts.load.enter())
    exchange.url = readRawUrl(request.originalUrl)
    next()
  }
}

function addRoutes(app: Express, routes: readonly Route[], parts: RouteParts): void {
  for (const [path, here] of Map.groupBy(routes, ({ path }) => path)) {
    const place = app.route(`/organizations/:orgId${path.replaceAll(/\{(\w+)\}/g, ':$1')}`)
    for (const route of here) place[route.method](runRoute(route, parts))
    const allow = here.flatMap(({ method }) => (method === 'get' ? ['GET', 'HEAD'] : [method.toUpperCase()]))
    place.all(() => {
      throw new Problem('method_not_allowed', { headers: { allow: allow.join(', ') } })
    })
  }
}

/** What is put off is counted; the log is told of each kind once in a while, or it would make a flood of a flood. */
const TELL_EVERY_MS = 10_000

/** The one error handler. */
function failing(log: Logger, clock: Clock): ErrorRequestHandler {
  const toldAt = new Map<ProblemCode, number>()
  return (error: unknown, request, response, _next) => {
    const problem = problemOf(error)
    const { code, status } = problem
    const { requestId, route } = contextOf(response)
    if (code === 'internal') log.error('a request failed', { requestId, route, error: wordsOf(error) })
    const now = clock.monotonic()
    if (status === 503 && now - (toldAt.get(code) ?? Number.NEGATIVE_INFINITY) >= TELL_EVERY_MS) {
      toldAt.set(code, now)
      log.warn('requests are put off', { requestId, route, code, cause: causeOf(problem) })
    }
    reply(request, response, problemResponse(problem, requestId))
  }
}

function causeOf({ cause }: Problem): string | undefined {
  return cause === undefined ? undefined : wordsOf(cause)
}

function wordsOf(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error)
}
