import { GROUP } from '../../src/apis/meta.ts'
import type { Permission } from '../../src/server/http/route.ts'

/** A ClusterRole, as far as it says what it allows. */
export type Role = {
  name: string
  rules: readonly { apiGroups: string[]; resources: string[]; verbs: string[]; resourceNames?: string[] }[]
}

/** Names of the roles that give a permission, as RBAC reads them. */
export function rolesThatMay({ verb, resource, subresource }: Permission, roles: readonly Role[]): string[] {
  const wanted = subresource === undefined ? resource : `${resource}/${subresource}`
  return roles
    .filter(({ rules }) =>
      rules.some(
        ({ apiGroups, resources, verbs, resourceNames }) =>
          apiGroups.includes(GROUP) &&
          resources.includes(wanted) &&
          verbs.includes(verb) &&
          resourceNames === undefined,
      ),
    )
    .map(({ name }) => name)
}
