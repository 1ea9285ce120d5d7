import type { z } from 'zod'
import type { ProblemCode } from './problems.ts'
import type { ResponseStream } from './response-stream.ts'

/**
 * A route, declared once: validation, authorization, the OpenAPI document and the tests that try every route all read the same
 * declaration. None is without a permission.
 */

/** A permission of Kubernetes in the organization's namespace, so that RBAC is the only authority. */
export type Permission = {
  verb: 'get' | 'create' | 'update'
  /** Of the group davit.dev. */
  resource: 'webhookendpoints' | 'webhookevents' | 'registrycredentials' | 'secretssettings' | 'boxtemplates'
  subresource?: 'ping' | 'secret' | 'redeliver'
}

/** Includes reads of endpoints, their deliveries and the event types: only owners may do any of it (interface §4.2, §5.3). */
export const MANAGE_WEBHOOKS: Permission = { verb: 'update', resource: 'webhookendpoints' }
export const PING: Permission = { verb: 'create', resource: 'webhookendpoints', subresource: 'ping' }
export const ROLL: Permission = { verb: 'create', resource: 'webhookendpoints', subresource: 'secret' }
export const REDELIVER: Permission = {
  verb: 'create',
  resource: 'webhookendpoints',
  subresource: 'redeliver',
}
export const PUBLISH: Permission = { verb: 'create', resource: 'webhookevents' }
/** `settings:write`, which includes reads (interface §4.1, §5.2). */
export const MANAGE_CREDENTIALS: Permission = { verb: 'update', resource: 'registrycredentials' }
export const MANAGE_SETTINGS: Permission = { verb: 'update', resource: 'secretssettings' }
/** As all reads over REST, for owners: who may change templates. */
export const READ_BOX_TEMPLATES: Permission = { verb: 'update', resource: 'boxtemplates' }

/** A caller with one of these permissions may see that the organization exists. */
export const VISIBILITY: readonly Permission[] = [
  { verb: 'get', resource: 'webhookendpoints' },
  { verb: 'get', resource: 'registrycredentials' },
  PUBLISH,
]

/** The header of a repeated response. */
export function replayed(yes: boolean): { headers?: Record<string, string> } {
  return yes ? { headers: { 'idempotency-replayed': 'true' } } : {}
}

/** An authorized request: its organization exists, and the caller has the permission there. */
export type RouteRequest<P, Q, B> = {
  /** The namespace. */
  organization: string
  params: P
  query: Q
  body: B
  /** Text of a top-level member of the body, unchanged. */
  rawMember(name: string): string | undefined
  /** Value of Idempotency-Key, if it was sent and the route takes it. */
  idempotencyKey: string | undefined
  /** Value of If-Match, if it was sent and the route takes it. */
  ifMatch: string | undefined
  /** Value of Last-Event-ID, if it was sent and the route takes it. */
  lastEventId?: string | undefined
}

export type RouteReply<R> = {
  /** Absent for 204. */
  body?: R
  headers?: Readonly<Record<string, string>>
  /** Instead of a body. */
  stream?: ResponseStream
}

type Shape = z.ZodObject

export type RouteDeclaration<P extends Shape, Q extends Shape, B extends z.ZodType, R extends z.ZodType> = {
  /** Name of the operation in the OpenAPI document. */
  id: string
  method: 'get' | 'post' | 'put' | 'patch' | 'delete'
  /** As in OpenAPI, below `/organizations/{orgId}`. */
  path: `/${string}`
  /** Matched without Express, whose router costs as much as the rest of a short request. Only for paths without IDs. */
  direct?: boolean
  tag: string
  summary: string
  description?: string
  permission: Permission
  /** In addition to `orgId`. An invalid id is answered with 404. */
  params?: P
  query?: Q
  body?: B
  /** Members of the body whose value is validated, and which the handler gets only as text. */
  rawMembers?: readonly string[]
  /** The body may be so long. Default: the limit of all routes. */
  bodyBytes?: number
  /** The body may have so many levels. Default: the limit of all routes. */
  bodyDepth?: number
  /** Bytes of memory for each byte of the body, until the response. Default 2, for its text. */
  bodyFactor?: number
  /** Most bytes of memory that building the response takes. The size of any response stays reserved until it was sent. */
  answerBytes?(query: z.output<Q>): number
  /** How many requests it counts as for the rate limits. Default 1. */
  cost?(body: z.output<B>): number
  /** No body means `{}`. */
  bodyOptional?: boolean
  success: {
    status: 200 | 201 | 202 | 204
    description: string
    body?: R
    headers?: Record<string, string>
    /** The body is a stream of server-sent events. */
    isStream?: boolean
  }
  /** In addition to those that every route has. */
  problems?: readonly ProblemCode[]
  /** Takes an Idempotency-Key; every POST does. */
  idempotent?: boolean
  /** Takes If-Match. */
  conditional?: boolean
  /** Takes Last-Event-ID. */
  resumable?: boolean
  handle(request: RouteRequest<z.output<P>, z.output<Q>, z.output<B>>): Promise<RouteReply<z.input<R>>>
}

/** A route without its types. */
export type Route = Omit<
  RouteDeclaration<Shape, Shape, z.ZodType, z.ZodType>,
  'handle' | 'cost' | 'answerBytes'
> & {
  cost?(body: unknown): number
  answerBytes?(query: Record<string, unknown>): number
  handle(
    request: RouteRequest<Record<string, unknown>, Record<string, unknown>, unknown>,
  ): Promise<RouteReply<unknown>>
}

export function route<P extends Shape, Q extends Shape, B extends z.ZodType, R extends z.ZodType>(
  declaration: RouteDeclaration<P, Q, B, R>,
): Route {
  return declaration as unknown as Route
}
