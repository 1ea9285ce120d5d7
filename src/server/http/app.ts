import type { ErrorRequestHandler, Express, Request, RequestHandler } from 'express'
import express from 'express'
import { z } from 'zod'
import type { AccessReviewer, TokenReviewer } from '../../kube/reviews.ts'
import type { Logger } from '../../lib/log.ts'
import { type Clock, type Random, within } from '../../lib/time.ts'
import { type Authorizer, createAuthenticator, createAuthorizer } from './auth.ts'
import { attachContext, contextOf, RequestContext, type RequestMetrics, refuseGone } from './context.ts'
import { InFlightLimiter, KeyedRateLimiter, REQUEST_LIMITS, type RequestLimits } from './limits.ts'
import { openPages } from './openapi.ts'
import { Problem, type ProblemCode, problemOf } from './problems.ts'
import {
  createRequestIds,
  type JsonText,
  readBody,
  readIdempotencyKey,
  readIfMatch,
  readJson,
  readQuery,
  readRawUrl,
  validateBody,
  validateQuery,
} from './request.ts'
import { jsonLine, problemResponse, reply } from './response.ts'
import type { Route, RouteRequest } from './route.ts'

/** The REST server as an Express app: what every request passes, in order, and the one error handler. */

type RouteParts = {
  clock: Clock
  authorize: Authorizer
  perOrganization: KeyedRateLimiter
  load: InFlightLimiter
  limits: RequestLimits
}

type AnyRequest = RouteRequest<Record<string, unknown>, Record<string, unknown>, unknown>

const NO_QUERY = z.strictObject({})
const NO_BODY: JsonText = { value: {}, member: () => undefined }

/**
 * Takes a request through its route: permission, rate limit, path, query, headers, body, and only then the handler. Nothing that
 * was sent is looked at before the caller is authorized.
 */
function runRoute(route: Route, parts: RouteParts): RequestHandler {
  return async (request, response) => {
    const context = contextOf(response)
    const { client } = context
    if (!client) throw new Error('a route was reached without authentication')
    context.route = route.id
    const organization = String(request.params.orgId)
    await parts.authorize(client, organization, route.permission)
    context.organization = organization
    // After authorization: callers that cannot see the organization must not use up its limit.
    countAgainstLimit(context, 'organization', parts.perOrganization, organization)
    refuseGone(request)
    const read = await readRequest(route, request, context, parts)
    // Late work continues in the background, since it may be half done.
    const work = route.handle(read)
    context.work = work
    const late = () => new Problem('unavailable')
    const { body, headers } = await within(parts.clock, parts.limits.answerMs, work, late)
    reply(request, response, {
      status: route.success.status,
      ...(body === undefined ? {} : { body: jsonLine(body) }),
      ...(headers === undefined ? {} : { headers }),
    })
  }
}

/** @param name of the limit, for the headers @throws Problem rate_limited */
function countAgainstLimit(
  context: RequestContext,
  name: string,
  limiter: KeyedRateLimiter,
  key: string,
): void {
  const taken = limiter.take(key)
  context.limits[name] = { taken, perSecond: limiter.perSecond }
  if (!taken.ok) throw new Problem('rate_limited', { retryAfter: taken.resetS })
}

async function readRequest(
  route: Route,
  request: Request,
  context: RequestContext,
  parts: RouteParts,
): Promise<AnyRequest> {
  const { orgId, ...ids } = request.params
  const { data: params } = route.params?.safeParse(ids) ?? { data: {} }
  // An invalid id cannot exist.
  if (!params) throw new Problem('not_found')
  const query = validateQuery(route.query ?? NO_QUERY, readQuery(context.url.search))
  const idempotencyKey = route.idempotent ? readIdempotencyKey(request.rawHeaders) : undefined
  const ifMatch = route.conditional ? readIfMatch(request.rawHeaders) : undefined
  const json = await bodyOf(route, request, context, parts)
  const body = route.body ? validateBody(route.body, json.value) : undefined
  const rawMember = (name: string) => json.member(name)
  return { organization: String(orgId), params, query, body, rawMember, idempotencyKey, ifMatch }
}

async function bodyOf(
  route: Route,
  request: Request,
  context: RequestContext,
  { clock, load, limits }: RouteParts,
): Promise<JsonText> {
  if (!route.body) return NO_BODY
  const text = await readBody(request, {
    clock,
    load,
    maxBytes: limits.bodyBytes,
    deadlineMs: limits.bodyMs,
    onReserved: (release) => context.onRelease(release),
  })
  if (text !== undefined) return readJson(text)
  if (route.bodyOptional) return NO_BODY
  throw new Problem('bad_json', { detail: 'The body is missing.' })
}

export type AppOptions = {
  routes: readonly Route[]
  /** Of Davit, for the OpenAPI document. */
  version: string
  tokens: TokenReviewer
  access: AccessReviewer
  /** Which namespaces are organizations. */
  organizations: { has(name: string): boolean }
  clock: Clock
  random: Random
  log: Logger
  metrics?: RequestMetrics
  /** Hashes keys for limits and logs. */
  hashKey: Uint8Array
  limits?: Partial<RequestLimits>
}

/** A request passes everything in the order of this function. */
export function createApp(options: AppOptions): Express {
  const { clock, hashKey, tokens, log } = options
  const limits = { ...REQUEST_LIMITS, ...options.limits }
  const authenticate = createAuthenticator(tokens, clock, hashKey)
  const load = new InFlightLimiter(limits.requests, limits.bytesInFlight)
  const perKey = new KeyedRateLimiter(clock, limits.perKey)
  const app = express()
  app.disable('x-powered-by').disable('etag').set('query parser', false)
  app.enable('case sensitive routing').enable('strict routing')
  app.use(beginning(options, load))
  app.use(openPages(options.routes, options.version))
  app.use(async (request, response, next) => {
    const context = contextOf(response)
    context.client = await authenticate(request.rawHeaders)
    refuseGone(request)
    countAgainstLimit(context, 'key', perKey, context.client.caller.keyId)
    next()
  })
  addRoutes(app, options.routes, {
    clock,
    limits,
    load,
    authorize: createAuthorizer(options.access, options.organizations, clock),
    perOrganization: new KeyedRateLimiter(clock, limits.perOrganization),
  })
  app.use(() => {
    throw new Problem('not_found')
  })
  app.use(failing(log, clock))
  return app
}

/** Names the request, counts it as in flight, and checks its URL. */
function beginning(options: AppOptions, load: InFlightLimiter): RequestHandler {
  const nextId = createRequestIds(options.random)
  return (request, response, next) => {
    const context = new RequestContext(nextId(), request, response, options)
    attachContext(response, context)
    response.once('close', () => context.closed())
    context.onRelease(load.enter())
    context.url = readRawUrl(request.originalUrl)
    next()
  }
}

function addRoutes(app: Express, routes: readonly Route[], parts: RouteParts): void {
  for (const [path, here] of Map.groupBy(routes, ({ path }) => path)) {
    const atPath = app.route(`/organizations/:orgId${path.replaceAll(/\{(\w+)\}/g, ':$1')}`)
    for (const route of here) atPath[route.method](runRoute(route, parts))
    const allow = here.flatMap(({ method }) => (method === 'get' ? ['GET', 'HEAD'] : [method.toUpperCase()]))
    atPath.all(() => {
      throw new Problem('method_not_allowed', { headers: { allow: allow.join(', ') } })
    })
  }
}

/** How often each kind of 503 is logged, so that an overload does not flood the log; metrics count all of them. */
const LOG_EVERY_MS = 10_000

/** The one error handler. */
function failing(log: Logger, clock: Clock): ErrorRequestHandler {
  const loggedAt = new Map<ProblemCode, number>()
  return (error: unknown, request, response, _next) => {
    const problem = problemOf(error)
    const { code, status } = problem
    const { requestId, route } = contextOf(response)
    if (code === 'internal') {
      log.error('request_failed', 'failed to handle request', { requestId, route, error: stackOf(error) })
    }
    const now = clock.monotonic()
    if (status === 503 && now - (loggedAt.get(code) ?? Number.NEGATIVE_INFINITY) >= LOG_EVERY_MS) {
      loggedAt.set(code, now)
      log.warn('request_unavailable', 'responding with 503', {
        requestId,
        route,
        code,
        cause: problem.cause === undefined ? undefined : stackOf(problem.cause),
      })
    }
    reply(request, response, problemResponse(problem, requestId))
  }
}

function stackOf(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error)
}
