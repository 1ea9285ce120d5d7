/**
 * Every route with every kind of API token and every mix of own, other and invented organizations and ids. The cases come from
 * the list of routes itself, so a new route is tested automatically.
 */

import { z } from 'zod'
import type { Permission, Route } from '../../src/server/http/route.ts'

export const KEY_KINDS = [
  'none',
  'garbage',
  'expired',
  'wrongAudience',
  'viewer',
  'publisher',
  'otherOwner',
  'owner',
] as const
export type KeyKind = (typeof KEY_KINDS)[number]

/** `own` belongs to the tokens `owner`, `viewer` and `publisher`, `other` to `otherOwner`. */
export const WHOSE = ['own', 'other', 'invented'] as const
export type Whose = (typeof WHOSE)[number]

export type Case = {
  route: Route
  key: KeyKind
  organization: Whose
  /** By the name of the parameter. */
  ids: Readonly<Record<string, Whose>>
}

export type Want = 'success' | 401 | 403 | 404

export function casesOf(routes: readonly Route[]): Case[] {
  return routes.flatMap((route) =>
    WHOSE.flatMap((organization) =>
      mixesOf(parametersOf(route)).flatMap((ids) =>
        KEY_KINDS.map((key) => ({ route, key, organization, ids })),
      ),
    ),
  )
}

/** For the title of a test. */
export function describeCase({ route, key, organization, ids }: Case): string {
  const named = Object.entries({ orgId: organization, ...ids }).map(([name, whose]) => `${whose} ${name}`)
  return `${route.id} with key "${key}": ${named.join(', ')}`
}

function parametersOf({ path }: Route): string[] {
  return [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name)
}

function mixesOf(names: readonly string[]): Record<string, Whose>[] {
  const [name, ...rest] = names
  if (name === undefined) return [{}]
  return WHOSE.flatMap((whose) => mixesOf(rest).map((mix) => ({ [name]: whose, ...mix })))
}

/** Whether a kind of token has the permission of a route in its own organization (settled: "Who may do what"). */
function mayAtHome(key: KeyKind, { verb, resource }: Permission): boolean {
  if (key === 'owner' || key === 'otherOwner') return true
  return key === 'publisher' && verb === 'create' && resource === 'webhookevents'
}

export function wanted({ route, key, organization, ids }: Case): Want {
  if (['none', 'garbage', 'expired', 'wrongAudience'].includes(key)) return 401
  const home = key === 'otherOwner' ? 'other' : 'own'
  if (organization !== home) return 404
  if (!mayAtHome(key, route.permission)) return 403
  return Object.values(ids).every((whose) => whose === home) ? 'success' : 404
}

/** The real names behind the words of a case. */
export type Names = Record<Whose, { organization: string; ids: Readonly<Record<string, string>> }>

export function pathOf({ route, organization, ids }: Case, names: Names): string {
  const filled = route.path.replaceAll(/\{(\w+)\}/g, (_whole, name: string) => {
    const whose = ids[name] ?? 'own'
    const id = names[whose].ids[name]
    if (id === undefined) throw new Error(`there is no ${whose} id for {${name}} of ${route.id}`)
    return id
  })
  return `/organizations/${names[organization].organization}${filled}`
}

/** A body that the route accepts, from the examples in its schema; undefined if it takes none. */
export function bodyOf({ body }: Route): Record<string, unknown> | undefined {
  if (!body) return undefined
  const { properties = {} } = z.toJSONSchema(body, { io: 'input', unrepresentable: 'any' })
  return Object.fromEntries(
    Object.entries(properties).flatMap(([name, schema]) =>
      typeof schema === 'object' && schema.example !== undefined ? [[name, schema.example]] : [],
    ),
  )
}

/** The body of a problem without the fields that identify the request. */
export function anonymous(json: Record<string, unknown>): Record<string, unknown> {
  return { ...json, requestId: undefined }
}
