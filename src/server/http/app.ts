import type { Request, RequestHandler } from 'express'
import { z } from 'zod'
import type { Clock } from '../../lib/ports-clock.ts'
import { jsonLine } from './answer.ts'
import type { Client } from './auth.ts'
import type { Authorizer } from './authorize.ts'
import { type JsonText, readJson } from './body.ts'
import { contextOf, type RequestContext, refuseGone, reply } from './context.ts'
import type { RequestLimits } from './facade-limits.ts'
import type { InFlightLimiter } from './load.ts'
import { Problem } from './problems.ts'
import type { KeyedRateLimiter } from './rate-limit.ts'
import { readBody } from './read-body.ts'
import { readQuery } from './read-query.ts'
import { readIdempotencyKey, readIfMatch } from './request-headers.ts'
import type { Route, RouteReply, RouteRequest } from './route.ts'
import { validateBody, validateQuery } from './validate.ts'

export type RouteParts = {
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
export function runRoute(route: Route, parts: RouteParts): RequestHandler {
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
export function countAgainstLimit(
  exchange: RequestContext,
  name: string,
  from: { limit: KeyedRateLimiter; of: string },
): void {
  const taken = from.limit.take(from.of)
  exchange.limits[name] = { taken, perSecond: from.limit.perSecond }
  if (!taken.ok) throw new Problem('rate_limited', { headers: { 'retry-after': String(taken.resetS) } })
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
    stopTimer = clock.after(limits.answerMs, () =>
      reject(new Problem('unavailable', { headers: { 'retry-after': '1' } })),
    )
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
