import type { z } from 'zod'
import type { ProblemCode } from './problems.ts'

/** What a route needs: a right of Kubernetes in the organization's namespace, so that RBAC is the only authority. */
export type Permission = {
  verb: 'get' | 'create' | 'update'
  /** Of the group davit.dev. */
  resource: 'webhookendpoints' | 'webhookevents' | 'registrycredentials' | 'secretssettings'
  subresource?: 'ping' | 'secret' | 'redeliver'
}

/** Reads of endpoints, their log and the event types included: all of it is the owners' (interface §4.2, §5.3). */
export const MANAGE_WEBHOOKS: Permission = { verb: 'update', resource: 'webhookendpoints' }
export const PING: Permission = { verb: 'create', resource: 'webhookendpoints', subresource: 'ping' }
export const ROLL: Permission = { verb: 'create', resource: 'webhookendpoints', subresource: 'secret' }
export const REDELIVER: Permission = {
  verb: 'create',
  resource: 'webhookendpoints',
  subresource: 'redeliver',
}
export const PUBLISH: Permission = { verb: 'create', resource: 'webhookevents' }
/** `settings:write`, reads included (interface §4.1, §5.2). */
export const MANAGE_CREDENTIALS: Permission = { verb: 'update', resource: 'registrycredentials' }
export const MANAGE_SETTINGS: Permission = { verb: 'update', resource: 'secretssettings' }

/** Who may do one of these can see that the organization exists; for everybody else there is nothing. */
export const VISIBILITY: readonly Permission[] = [
  { verb: 'get', resource: 'webhookendpoints' },
  { verb: 'get', resource: 'registrycredentials' },
  PUBLISH,
]

/** Header of an answer that repeats an earlier one. */
export function replayed(yes: boolean): { headers?: Record<string, string> } {
  return yes ? { headers: { 'idempotency-replayed': 'true' } } : {}
}

/**
 * A route, declared once: validation, authorization, the OpenAPI document and the tests that try every route all
 * read the same declaration. There is none without a permission.
 */

/** A request that was let in: its organization exists and the caller may do this there. */
export type RouteRequest<P, Q, B> = {
  /** The namespace. */
  organization: string
  params: P
  query: Q
  body: B
  /** Text of a top-level member of the body, as it came. */
  rawMember(name: string): string | undefined
  /** The header's value, where the route takes one. */
  idempotencyKey: string | undefined
  /** Value of If-Match, where it was sent. */
  ifMatch: string | undefined
}

export type RouteReply<R> = {
  /** Absent for 204. */
  body?: R
  headers?: Readonly<Record<string, string>>
}

type Shape = z.ZodObject

export type RouteDeclaration<P extends Shape, Q extends Shape, B extends z.ZodType, R extends z.ZodType> = {
  /** Name of the operation in the OpenAPI document. */
  id: string
  method: 'get' | 'post' | 'put' | 'patch' | 'delete'
  /** As in OpenAPI, below `/organizations/{orgId}`. */
  path: `/${string}`
  tag: string
  summary: string
  description?: string
  permission: Permission
  /** Besides `orgId`. An id that does not fit is one that does not exist: 404. */
  params?: P
  query?: Q
  body?: B
  /** Without a body the request is the same as with `{}`. */
  bodyOptional?: boolean
  success: { status: 200 | 201 | 202 | 204; description: string; body?: R; headers?: Record<string, string> }
  /** Beyond those that every route has. */
  problems?: readonly ProblemCode[]
  /** Takes an Idempotency-Key; every POST does. */
  idempotent?: boolean
  /** Takes If-Match. */
  conditional?: boolean
  handle(request: RouteRequest<z.output<P>, z.output<Q>, z.output<B>>): Promise<RouteReply<z.input<R>>>
}

/** A route as the app takes it, whatever its types. */
export type Route = Omit<RouteDeclaration<Shape, Shape, z.ZodType, z.ZodType>, 'handle'> & {
  handle(
    request: RouteRequest<Record<string, unknown>, Record<string, unknown>, unknown>,
  ): Promise<RouteReply<unknown>>
}

export function route<P extends Shape, Q extends Shape, B extends z.ZodType, R extends z.ZodType>(
  declaration: RouteDeclaration<P, Q, B, R>,
): Route {
  return declaration as unknown as Route
}
