import type { z } from 'zod'
import type { ProblemCode } from './problems.ts'

/**
 * A route, declared once: validation, authorization, the OpenAPI document and the tests that try every route all read the same
 * declaration. None is without a permission.
 */

/** A permission of Kubernetes in the organization's namespace, so that RBAC is the only authority. */
export type Permission = {
  verb: 'get' | 'create' | 'update'
  /** Of the group davit.dev. */
  resource: 'webhookendpoints' | 'webhookevents' | 'registrycredentials' | 'secretssettings'
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
  /** In addition to `orgId`. An invalid id is answered with 404. */
  params?: P
  query?: Q
  body?: B
  /** No body means `{}`. */
  bodyOptional?: boolean
  success: { status: 200 | 201 | 202 | 204; description: string; body?: R; headers?: Record<string, string> }
  /** In addition to those that every route has. */
  problems?: readonly ProblemCode[]
  /** Takes an Idempotency-Key; every POST does. */
  idempotent?: boolean
  /** Takes If-Match. */
  conditional?: boolean
  handle(request: RouteRequest<z.output<P>, z.output<Q>, z.output<B>>): Promise<RouteReply<z.input<R>>>
}

/** A route without its types. */
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
