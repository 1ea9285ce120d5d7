/**
 * Every route with every kind of key and every kind of id, from the list of routes itself: a new route is tried
 * without being named.
 */
import type { Permission } from '../../src/rest/permission.ts'
import type { Route } from '../../src/rest/route.ts'

/** Bodies that routes need, by their id; a route that needs one and has none here fails its rows of `owner`. */
export const BODIES: Readonly<Record<string, unknown>> = {
  createEndpoint: { url: 'https://example.com/hooks', eventTypes: ['*'] },
  changeEndpoint: { description: 'x' },
  publishEvent: { type: 'environment.started', data: {} },
}

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

/** Whose organization and id the path names; `foreignId`: one's own organization with the other's id. */
export const TARGETS = ['own', 'other', 'invented', 'foreignId', 'inventedId'] as const
export type Target = (typeof TARGETS)[number]

export type Case = { route: Route; key: KeyKind; target: Target }

export type Want = { status: 'success' | 401 | 403 | 404 }

export function casesOf(routes: readonly Route[]): Case[] {
  return routes.flatMap((route) =>
    KEY_KINDS.flatMap((key) =>
      TARGETS.filter((target) => route.params !== undefined || !target.endsWith('Id')).map((target) => ({
        route,
        key,
        target,
      })),
    ),
  )
}

/** What the permission of a route means for a kind of key in its own organization (settled: "Who may do what"). */
function mayInOwn(key: KeyKind, { verb, resource }: Permission): boolean {
  if (key === 'owner') return true
  return key === 'publisher' && verb === 'create' && resource === 'webhookevents'
}

/** @param organization what the keys `owner`, `viewer` and `publisher` are of; `otherOwner` owns the other */
export function wanted({ route, key, target }: Case): Want {
  if (['none', 'garbage', 'expired', 'wrongAudience'].includes(key)) return { status: 401 }
  const organization = target === 'invented' ? 'none' : target === 'other' ? 'other' : 'own'
  const home = key === 'otherOwner' ? 'other' : 'own'
  if (organization !== home) return { status: 404 }
  if (key === 'otherOwner') return { status: 'success' }
  if (!mayInOwn(key, route.permission)) return { status: 403 }
  return { status: target.endsWith('Id') ? 404 : 'success' }
}

export type Names = {
  organizations: { own: string; other: string; invented: string }
  /** By the name of the parameter. */
  ids: { own: Record<string, string>; other: Record<string, string>; invented: Record<string, string> }
}

/** The path of a case. */
export function pathOf({ route, target }: Case, names: Names): string {
  const organization = target === 'other' || target === 'invented' ? target : 'own'
  const ids = target === 'foreignId' ? 'other' : target === 'inventedId' ? 'invented' : organization
  const filled = route.path.replaceAll(/\{(\w+)\}/g, (_whole, name: string) => {
    const id = names.ids[ids][name]
    if (id === undefined) throw new Error(`there is no ${ids} id for {${name}} of ${route.id}`)
    return id
  })
  return `/organizations/${names.organizations[organization]}${filled}`
}
