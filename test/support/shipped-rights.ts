/** The rights that config/rbac grants, and their use. */
import { readFile } from 'node:fs/promises'
import { nameOfRight, type Right, rightsIn } from '../../tools/docgen/rights/rights.ts'
import type { Deed } from './audit-trail.ts'

export { nameOfRight, type Right, rightsIn }

const FOLDER = new URL('../../config/rbac/', import.meta.url)

/** @param name of a file in config/rbac, such as `davit-api` */
export async function shippedRights(name: string): Promise<Right[]> {
  return rightsIn(await readFile(new URL(`${name}.yaml`, FOLDER), 'utf8'))
}

/** Whether the call needed the right. A right in all namespaces is not needed for objects in `operatorNamespace`. */
export function covers(right: Right, deed: Deed, operatorNamespace: string): boolean {
  const same = (['verb', 'group', 'resource', 'subresource'] as const).every(
    (part) => right[part] === deed[part],
  )
  if (!same) return false
  return right.namespace === undefined
    ? deed.namespace !== operatorNamespace
    : deed.namespace === right.namespace
}
