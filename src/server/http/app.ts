import type { ErrorRequestHandler, Express, Request, RequestHandler } from 'express'
import express from 'express'
import { z } from 'zod'
import type { AccessReviewer, TokenReviewer } from '../../kube/reviews.ts'
import type { Clock, Random } from '../../lib/clock.ts'
import type { Logger } from '../../lib/log.ts'
import { type Authorizer, type Client, createAuthenticator, createAuthorizer } from './auth.ts'
import { type JsonText, readBody, readJson, validateBody, validateQuery } from './body.ts'
import {
  attachContext,
  contextOf,
  jsonLine,
  problemResponse,
  RequestContext,
  type RequestMetrics,
  refuseGone,
  reply,
  requestEnd,
} from './context.ts'
import { InFlightLimiter, KeyedRateLimiter, REQUEST_LIMITS, type RequestLimits } from './limits.ts'
import { openPages } from './openapi.ts'
import { Problem, type ProblemCode, problemOf } from './problems.ts'
import { createRequestIds, readIdempotencyKey, readIfMatch, readQuery, readRawUrl } from './request.ts'
import type { Route, RouteReply, RouteRequest } from './route.ts'

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
 * Takes a request through its route: right, rate, path, query, headers, body, and only then the handler. Nothing
 * of what was sent is looked at before the caller was let in.
 */
function runRoute(route: Route, parts: RouteParts): RequestHandler {
  return async (request, response) => {
    const exchange = contextOf(response)
    const client = exchange.client
    if (!client) throw new Error('a route was reached without authentication')
    exchange.route = route.id
    await letIn(route, { exchange, client, organization: String(request.params.orgId) }, parts)
    refuseGone(request)
    const read = await readRequest(route, request, exchange, parts)
    const answer = await inTime(exchange, parts, () => route.handle(read))
    reply(request, response, answerOf(route, answer))
  }
}

type Entry = { exchange: RequestContext; client: Client; organization: string }

/** The organization's limit is no concern of those who cannot see it. */
async function letIn(
  route: Route,
  { exchange, client, organization }: Entry,
  parts: RouteParts,
): Promise<void> {
  await parts.authorize(client, organization, route.permission)
  exchange.organization = organization
  countAgainstLimit(exchange, 'organization', { limit: parts.perOrganization, of: organization })
}

/** @throws Problem rate_limited */
function countAgainstLimit(
  exchange: RequestContext,
  name: string,
  from: { limit: KeyedRateLimiter; of: string },
): void {
  const taken = from.limit.take(from.of)
  exchange.limits[name] = { taken, perSecond: from.limit.perSecond }
  if (!taken.ok) throw new Problem('rate_limited', { retryAfter: taken.resetS })
}

async function readRequest(
  route: Route,
  request: Request,
  exchange: RequestContext,
  parts: RouteParts,
): Promise<AnyRequest> {
  const { orgId, ...ids } = request.params
  const params = paramsOf(route, ids)
  const query = validateQuery(route.query ?? NO_QUERY, readQuery(exchange.url.search))
  const idempotencyKey = route.idempotent ? readIdempotencyKey(request.rawHeaders) : undefined
  const ifMatch = route.conditional ? readIfMatch(request.rawHeaders) : undefined
  const json = await bodyOf(route, request, exchange, parts)
  const body = route.body ? validateBody(route.body, json.value) : undefined
  const rawMember = (name: string) => json.member(name)
  return { organization: String(orgId), params, query, body, rawMember, idempotencyKey, ifMatch }
}

/** An id that cannot be one is one that does not exist. */
function paramsOf(route: Route, ids: Record<string, unknown>): Record<string, unknown> {
  if (!route.params) return {}
  const parsed = route.params.safeParse(ids)
  if (!parsed.success) throw new Problem('not_found')
  return parsed.data
}

async function bodyOf(
  route: Route,
  request: Request,
  exchange: RequestContext,
  { clock, load, limits }: RouteParts,
): Promise<JsonText> {
  if (!route.body) return NO_BODY
  const text = await readBody(request, {
    clock,
    load,
    limits: { mostBytes: limits.bodyBytes, deadlineMs: limits.bodyMs },
    onReserved: (release) => exchange.onRelease(release),
  })
  if (text !== undefined) return readJson(text)
  if (route.bodyOptional) return NO_BODY
  throw new Problem('bad_json', { detail: 'There is no body.' })
}

/** What takes longer is given up, and goes on: it may be half done. */
async function inTime<T>(
  exchange: RequestContext,
  { clock, limits }: RouteParts,
  run: () => Promise<T>,
): Promise<T> {
  let stopTimer = () => {}
  const late = new Promise<never>((_resolve, reject) => {
    stopTimer = clock.after(limits.answerMs, () => reject(new Problem('unavailable')))
  })
  try {
    const work = run()
    exchange.work = work
    return await Promise.race([work, late])
  } finally {
    stopTimer()
  }
}

function answerOf(route: Route, { body, headers }: RouteReply<unknown>) {
  return {
    status: route.success.status,
    ...(body === undefined ? {} : { body: jsonLine(body) }),
    ...(headers === undefined ? {} : { headers }),
  }
}

export type AppOptions = {
  routes: readonly Route[]
  /** Of Davit, for the document. */
  version: string
  tokens: TokenReviewer
  access: AccessReviewer
  /** Which namespaces are organizations. */
  organizations: { has(name: string): boolean }
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
  const authenticate = createAuthenticator(tokens, clock, hashKey)
  const parts: Parts = {
    clock,
    random,
    log,
    limits,
    authorize: createAuthorizer(options.access, options.organizations, clock),
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
