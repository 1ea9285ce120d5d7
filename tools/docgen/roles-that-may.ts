import { GROUP } from '../../src/apis/meta.ts'
import type { Permission } from '../../src/server/http/route.ts'

/** The part of a ClusterRole that grants permissions. */
export type Role = {
  name: string
  rules: readonly { apiGroups: string[]; resources: string[]; verbs: string[]; resourceNames?: string[] }[]
}

/** Names of the roles that grant a permission, by the rules of RBAC. */
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
