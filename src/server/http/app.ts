import type { IncomingMessage, ServerResponse } from 'node:http'
import express, { type Express } from 'express'
import { z } from 'zod'
import type { AccessReviewer, TokenReviewer } from '../../kube/reviews.ts'
import type { TokenSignatures } from '../../kube/token-signatures.ts'
import type { Logger } from '../../lib/log.ts'
import type { StrictJson } from '../../lib/strict-json.ts'
import { type Clock, type Random, within } from '../../lib/time.ts'
import { type Authenticator, type Authorizer, createAuthenticator, createAuthorizer } from './auth.ts'
import { JSON_TYPE, readBody } from './body.ts'
import { attachContext, contextOf, RequestContext, type RequestMetrics, refuseGone } from './context.ts'
import { readJson } from './json-body.ts'
import {
  InFlightLimiter,
  KeyedRateLimiter,
  REQUEST_LIMITS,
  type RequestLimits,
  type Reservation,
  TEXT_BYTES,
} from './limits.ts'
import { openPages } from './openapi.ts'
import { Problem, type ProblemCode, problemOf } from './problems.ts'
import {
  createRequestIds,
  readIdempotencyKey,
  readIfMatch,
  readLastEventId,
  readQuery,
  readRawUrl,
  validateBody,
  validateQuery,
} from './request.ts'
import { FIXED_HEADERS, headersOfContext, jsonLine, problemResponse, reply } from './response.ts'
import { startResponseStream } from './response-stream.ts'
import type { Route, RouteRequest } from './route.ts'
import type { RequestListener } from './server.ts'

/**
 * The REST server: what every request passes, in order, and the one error handler. Express matches the paths, except those of
 * direct routes.
 */

type RouteParts = {
  clock: Clock
  authenticate: Authenticator
  authorize: Authorizer
  perKey: KeyedRateLimiter
  perOrganization: KeyedRateLimiter
  load: InFlightLimiter
  limits: RequestLimits
}

/** @param params of the path: `orgId`, and the ids below it */
type RouteHandler = (request: IncomingMessage, response: ServerResponse, params: PathParams) => Promise<void>

type PathParams = Readonly<Record<string, unknown>>

/** An authorized request that is yet to be read. */
type Unread = { request: IncomingMessage; context: RequestContext; organization: string; ids: PathParams }

type AnyRequest = RouteRequest<Record<string, unknown>, Record<string, unknown>, unknown>

const NO_QUERY = z.strictObject({})
const NO_BODY: StrictJson = { value: {}, member: () => undefined }

/**
 * Takes a request through its route: permission, rate limit, path, query, headers, body, and only then the handler. Nothing that
 * was sent is looked at before the caller is authorized.
 */
function runRoute(route: Route, parts: RouteParts): RouteHandler {
  return async (request, response, { orgId, ...ids }) => {
    const context = contextOf(response)
    const { client } = context
    if (!client) throw new Error('a route was reached without authentication')
    context.route = route.id
    const organization = String(orgId)
    await parts.authorize(client, organization, route.permission)
    context.organization = organization
    // After authorization: callers that cannot see the organization must not use up its limit.
    countAgainstLimit(context, 'organization', parts.perOrganization, organization)
    context.onRelease(parts.load.admit(organization))
    refuseGone(request)
    const read = await readRequest(route, { request, context, organization, ids }, parts)
    const reservation = parts.load.reserve(organization, route.answerBytes?.(read.query) ?? 0)
    context.onRelease(reservation.release)
    const more = (route.cost?.(read.body) ?? 1) - 1
    if (more > 0) {
      countAgainstLimit(context, 'key', parts.perKey, client.caller.keyId, more)
      countAgainstLimit(context, 'organization', parts.perOrganization, organization, more)
    }
    // Late work continues in the background, since it may be half done.
    const work = route.handle(read)
    context.work = work
    const late = () => new Problem('unavailable')
    const { body, headers, stream } = await within(parts.clock, parts.limits.answerMs, work, late)
    if (stream) {
      context.streaming()
      const authorize = async () => {
        const again = await parts.authenticate(request.rawHeaders, request.socket)
        await parts.authorize(again, organization, route.permission)
      }
      const headers = { ...FIXED_HEADERS, ...headersOfContext(context) }
      startResponseStream(request, response, { headers, start: stream, authorize })
      return
    }
    const text = body === undefined ? undefined : jsonLine(body)
    holdUntilSent(reservation, route, TEXT_BYTES * (text?.length ?? 0))
    reply(request, response, {
      status: route.success.status,
      ...(text === undefined ? {} : { body: text }),
      ...(headers === undefined ? {} : { headers }),
    })
  }
}

/** A write gets its response even beyond the limit, since it has taken effect. @throws Problem overloaded */
function holdUntilSent(reservation: Reservation, { method }: Route, bytes: number): void {
  if (method === 'get') reservation.resizeTo(bytes)
  else reservation.hold(bytes)
}

/** @param name of the limit, for the headers @throws Problem rate_limited */
function countAgainstLimit(
  context: RequestContext,
  name: string,
  limiter: KeyedRateLimiter,
  key: string,
  count = 1,
): void {
  // A batch beyond the limit of a second takes all that its request, which counts as one, has left of it.
  const taken = limiter.take(key, Math.min(count, Math.max(1, limiter.perSecond - 1)))
  context.limits[name] = { taken, perSecond: limiter.perSecond }
  if (!taken.ok) throw new Problem('rate_limited', { retryAfter: taken.resetS })
}

async function readRequest(route: Route, unread: Unread, parts: RouteParts): Promise<AnyRequest> {
  const { request, context, organization, ids } = unread
  const { data: params } = route.params?.safeParse(ids) ?? { data: {} }
  // An invalid id cannot exist.
  if (!params) throw new Problem('not_found')
  const query = validateQuery(route.query ?? NO_QUERY, readQuery(context.url.search))
  const idempotencyKey = route.idempotent ? readIdempotencyKey(request.rawHeaders) : undefined
  const ifMatch = route.conditional ? readIfMatch(request.rawHeaders) : undefined
  const lastEventId = route.resumable ? readLastEventId(request.rawHeaders) : undefined
  const { value, member: rawMember } = await bodyOf(route, unread, parts)
  const body = route.body ? withoutMembers(validateBody(route.body, value), route.rawMembers) : undefined
  return { organization, params, query, body, rawMember, idempotencyKey, ifMatch, lastEventId }
}

/** The handler keeps its body while it waits, and a parsed value may take twenty times the memory of its text. */
function withoutMembers(body: unknown, names: readonly string[] = []): unknown {
  if (names.length === 0) return body
  return Object.fromEntries(Object.entries(body as object).filter(([name]) => !names.includes(name)))
}

async function bodyOf(
  route: Route,
  { request, context, organization }: Unread,
  { clock, load, limits }: RouteParts,
): Promise<StrictJson> {
  if (!route.body) return NO_BODY
  const text = await readBody(request, {
    clock,
    arriving: context.body,
    maxBytes: route.bodyBytes ?? limits.bodyBytes,
    factor: route.bodyFactor ?? TEXT_BYTES,
    deadlineMs: limits.bodyMs,
    reserve: (bytes) => {
      const reservation = load.reserve(organization, bytes)
      context.onRelease(reservation.release)
      return reservation
    },
  })
  if (text !== undefined) return readJson(text, route.bodyDepth)
  if (route.bodyOptional) return NO_BODY
  throw new Problem('bad_json', { detail: 'The body is missing.' })
}

export type AppOptions = {
  routes: readonly Route[]
  /** Of Davit, for the OpenAPI document. */
  version: string
  tokens: TokenReviewer
  signatures: TokenSignatures
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

/** What a request passes before and after its route, in this order; each throws a Problem, or passes the request on. */
type Steps = {
  /** Names the request and counts it as in flight. */
  begin(request: IncomingMessage, response: ServerResponse): void
  authenticate(request: IncomingMessage, response: ServerResponse): Promise<void>
  /** The one error handler. */
  fail(error: unknown, request: IncomingMessage, response: ServerResponse): void
}

export function createApp(options: AppOptions): RequestListener {
  const { clock, log } = options
  const limits = { ...REQUEST_LIMITS, ...options.limits }
  const load = new InFlightLimiter(limits)
  const perKey = new KeyedRateLimiter(clock, limits.perKey)
  const authenticate = createAuthenticator(options)
  const steps = { ...admission(options, { authenticate, load, perKey }), fail: failing(log, clock) }
  const parts: RouteParts = {
    clock,
    limits,
    load,
    perKey,
    authenticate,
    authorize: createAuthorizer(options.access, options.organizations, clock),
    perOrganization: new KeyedRateLimiter(clock, limits.perOrganization),
  }
  const handlers = new Map(options.routes.map((route) => [route, runRoute(route, parts)]))
  const matched = matchedByExpress(options, handlers, steps)
  const direct = new DirectRoutes(handlers)
  return (request, response) => {
    const found = direct.find(request.method, request.url)
    if (found) void serveDirectly(found, steps, request, response)
    else matched(request, response)
  }
}

function admission(
  options: AppOptions,
  { authenticate, load, perKey }: Pick<RouteParts, 'authenticate' | 'load' | 'perKey'>,
): Omit<Steps, 'fail'> {
  const nextId = createRequestIds(options.random)
  return {
    begin(request, response) {
      const context = new RequestContext(nextId(), request, response, options)
      attachContext(response, context)
      response.once('close', () => context.closed())
      context.onRelease(load.enter())
    },
    async authenticate(request, response) {
      const context = contextOf(response)
      context.client = await authenticate(request.rawHeaders, request.socket)
      refuseGone(request)
      countAgainstLimit(context, 'key', perKey, context.client.caller.keyId)
    },
  }
}

type Handlers = ReadonlyMap<Route, RouteHandler>

function matchedByExpress(options: AppOptions, handlers: Handlers, steps: Steps): Express {
  const app = express()
  app.disable('x-powered-by').disable('etag').set('query parser', false)
  app.enable('case sensitive routing').enable('strict routing')
  app.use((request, response, next) => {
    steps.begin(request, response)
    contextOf(response).url = readRawUrl(request.originalUrl)
    next()
  })
  app.use(openPages(options.routes, options.version))
  app.use(async (request, response, next) => {
    await steps.authenticate(request, response)
    next()
  })
  addRoutes(app, handlers)
  app.use(() => {
    throw new Problem('not_found')
  })
  app.use(
    (error: unknown, request: express.Request, response: express.Response, _next: express.NextFunction) =>
      steps.fail(error, request, response),
  )
  return app
}

function addRoutes(app: Express, handlers: Handlers): void {
  for (const [path, here] of Map.groupBy(handlers, ([{ path }]) => path)) {
    const atPath = app.route(`/organizations/:orgId${path.replaceAll(/\{(\w+)\}/g, ':$1')}`)
    for (const [{ method }, handle] of here)
      atPath[method]((request, response) => handle(request, response, request.params))
    const allow = here.flatMap(([{ method }]) =>
      method === 'get' ? ['GET', 'HEAD'] : [method.toUpperCase()],
    )
    const patch = allow.includes('PATCH') ? { 'accept-patch': JSON_TYPE } : {}
    atPath.all(() => {
      throw new Problem('method_not_allowed', { headers: { allow: allow.join(', '), ...patch } })
    })
  }
}

/** A request of a direct route. Its URL needs no check, since it has none of the characters that `readRawUrl` looks for. */
type DirectMatch = { organization: string; path: string; handle: RouteHandler }

/** A URL in which nothing is escaped or odd: any other is left to Express, also if it leads to the same route. */
const PLAIN_URL = /^\/organizations\/([a-z0-9-]{1,63})(\/[a-z/-]{1,63})$/

/** Matches the routes that most requests are for. */
export class DirectRoutes {
  /** By method and path. */
  readonly #handlers: ReadonlyMap<string, RouteHandler>

  constructor(handlers: Handlers) {
    const direct = [...handlers].filter(([route]) => route.direct)
    this.#handlers = new Map(
      direct.map(([{ method, path }, handle]) => [`${method.toUpperCase()} ${path}`, handle]),
    )
  }

  find(method: string | undefined, url: string | undefined): DirectMatch | undefined {
    const [path, organization, rest] = PLAIN_URL.exec(url ?? '') ?? []
    if (path === undefined || organization === undefined) return undefined
    const handle = this.#handlers.get(`${method} ${rest}`)
    return handle && { organization, path, handle }
  }
}

async function serveDirectly(
  { organization, path, handle }: DirectMatch,
  steps: Steps,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  try {
    steps.begin(request, response)
    contextOf(response).url = { path, search: '' }
    await steps.authenticate(request, response)
    await handle(request, response, { orgId: organization })
  } catch (error) {
    steps.fail(error, request, response)
  }
}

/** How often each kind of 503 is logged, so that an overload does not flood the log; metrics count all of them. */
const LOG_EVERY_MS = 10_000

function failing(log: Logger, clock: Clock): Steps['fail'] {
  const loggedAt = new Map<ProblemCode, number>()
  return (error, request, response) => {
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
