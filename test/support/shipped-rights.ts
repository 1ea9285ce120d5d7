/** The rights that config/rbac gives, one by one. */
import { readFile } from 'node:fs/promises'
import { parseAllDocuments } from 'yaml'
import type { Deed } from './audit-trail.ts'

/** `namespace` is that of a Role; of a ClusterRole it is absent. */
export type Right = Omit<Deed, 'namespace'> & { namespace?: string }

type Role = {
  kind: string
  metadata: { namespace?: string }
  rules?: { apiGroups: string[]; resources: string[]; verbs: string[] }[]
}

const FOLDER = new URL('../../config/rbac/', import.meta.url)

/** @param name of a file in config/rbac, such as `davit-api` */
export async function shippedRights(name: string): Promise<Right[]> {
  const text = await readFile(new URL(`${name}.yaml`, FOLDER), 'utf8')
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

/** Whether the right was needed for it. One in all namespaces is not needed for what lies in `operatorNamespace`. */
export function covers(right: Right, deed: Deed, operatorNamespace: string): boolean {
  const same = (['verb', 'group', 'resource', 'subresource'] as const).every(
    (part) => right[part] === deed[part],
  )
  if (!same) return false
  return right.namespace === undefined
    ? deed.namespace !== operatorNamespace
    : deed.namespace === right.namespace
}

/** As a line of text, such as `get secrets in davit-system`. */
export function nameOfRight({ verb, group, resource, subresource, namespace }: Right): string {
  const path = subresource === '' ? resource : `${resource}/${subresource}`
  const where = namespace === undefined || namespace === '' ? '' : ` in ${namespace}`
  return `${verb} ${path}${group === '' ? '' : `.${group}`}${where}`
}
