/** Lists the rights of roles one by one. */
import { parseAllDocuments } from 'yaml'

/** `namespace` is that of a Role, and absent for a ClusterRole. `group` and `subresource` may be empty. */
export type Right = {
  verb: string
  group: string
  resource: string
  subresource: string
  namespace?: string
}

type Role = {
  kind: string
  metadata: { namespace?: string }
  rules?: { apiGroups: string[]; resources: string[]; verbs: string[] }[]
}

/** Files of config/rbac with the rights of a ServiceAccount, by its name. */
export const RIGHTS_OF = {
  'davit-controller': ['davit-controller', 'davit-controller-bakes', 'davit-organization-secrets'],
  'davit-api': ['davit-api'],
} as const

export type AccountName = keyof typeof RIGHTS_OF

/** @param text of a file of config/rbac */
export function rightsIn(text: string): Right[] {
  const roles = parseAllDocuments(text).map((document) => document.toJS() as Role)
  return roles.flatMap(({ kind, metadata, rules = [] }) =>
    rules.flatMap(({ apiGroups, resources, verbs }) =>
      apiGroups.flatMap((group) =>
        resources.flatMap((path) =>
          verbs.map((verb) => rightOf(verb, group, path, kind === 'Role' ? metadata.namespace : undefined)),
        ),
      ),
    ),
  )
}

function rightOf(verb: string, group: string, path: string, namespace: string | undefined): Right {
  const [resource = '', subresource = ''] = path.split('/')
  return { verb, group, resource, subresource, ...(namespace === undefined ? {} : { namespace }) }
}

/** As in `webhookevents/status.davit.dev`. */
export function pathOfRight({ group, resource, subresource }: Omit<Right, 'verb'>): string {
  const path = subresource === '' ? resource : `${resource}/${subresource}`
  return `${path}${group === '' ? '' : `.${group}`}`
}

/** As in `get secrets in davit-system`. */
export function nameOfRight(right: Right): string {
  const { verb, namespace } = right
  const where = namespace === undefined || namespace === '' ? '' : ` in ${namespace}`
  return `${verb} ${pathOfRight(right)}${where}`
}
