/** The table of routes in docs/guides/rest-api.md: the declared routes, and the shipped roles that may call them. */

import { parseAllDocuments } from 'yaml'
import type { Permission, Route } from '../../../src/server/http/route.ts'
import { allRoutes, type RouteServices } from '../../../src/server/routes.ts'
import { NoPlaceError, type Output } from '../generated-file.ts'
import { markdownTable } from '../markdown-table.ts'
import { putSection } from '../page-section.ts'
import { type Role, rolesThatMay } from '../roles-that-may.ts'

const PAGE = 'docs/guides/rest-api.md'
const ROLES = ['owner', 'publisher', 'viewer']

/** Only the declarations are used; the services are never called here. */
const NO_SERVICES = {} as RouteServices

export const routeTable: Output = {
  owns: [],
  files(read) {
    const page = read(PAGE)
    if (page === undefined)
      throw new NoPlaceError(`${PAGE} is missing, but the table of routes is written to it`)
    const roles = ROLES.map((name) => roleNamed(name, read))
    const rows = allRoutes(NO_SERVICES).map((route) => rowOf(route, roles))
    const content = markdownTable(['Request', 'Description', 'Response', 'Roles', 'Headers'], rows)
    return [
      { path: PAGE, content: putSection(PAGE, page, { name: 'routes', end: 'end of routes', content }) },
    ]
  },
}

function roleNamed(name: string, read: (path: string) => string | undefined): Role {
  const path = `config/rbac/davit-${name}.yaml`
  const documents = parseAllDocuments(read(path) ?? '').map((document) => document.toJS() as Partial<Role>)
  const rules = documents.flatMap(({ rules = [] }) => rules)
  if (rules.length === 0) throw new NoPlaceError(`${path} has no rules`)
  return { name, rules }
}

function rowOf(route: Route, roles: readonly Role[]): string[] {
  const { method, path, summary, success, permission, idempotent, conditional, resumable } = route
  const headers = [
    ...(idempotent ? ['`Idempotency-Key`'] : []),
    ...(conditional ? ['`If-Match`'] : []),
    ...(resumable ? ['`Last-Event-ID`'] : []),
  ]
  return [
    `\`${method.toUpperCase()} ${path}\``,
    summary,
    String(success.status),
    whoMay(permission, roles),
    headers.join(', '),
  ]
}

function whoMay(permission: Permission, roles: readonly Role[]): string {
  return rolesThatMay(permission, roles).join(', ')
}
