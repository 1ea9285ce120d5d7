import { DNS_LABEL, DNS_SUBDOMAIN, type ResourceType } from '../apis/meta.ts'
import { ApiError, type ObjectRef } from './client.ts'

/**
 * Paths of the Kubernetes API. Nothing becomes a segment before it was matched against the characters that
 * names may have: `.` and `..` would reach a collection or another kind, and DELETE would empty it.
 */

const MAX_SUBDOMAIN = 253
/** Groups are checked here and not by DNS_SUBDOMAIN because the core group is empty. */
const checkedTypes = new WeakMap<ResourceType, string>()

/** Path of a collection. @param namespace absent: of all namespaces, or of a cluster-scoped type */
export function collectionPath(type: ResourceType, namespace?: string): string {
  const { root, plural } = { root: rootOf(type), plural: type.plural }
  if (namespace === undefined) return `${root}/${plural}`
  if (!type.namespaced) throw wrong(`${plural} have no namespace`)
  if (!DNS_LABEL.test(namespace)) throw wrong(`${quote(namespace)} is not the name of a namespace`)
  return `${root}/namespaces/${namespace}/${plural}`
}

/** Path of one object. @throws ApiError NotFound for a name that no object can have */
export function objectPath(type: ResourceType, ref: ObjectRef): string {
  if (type.namespaced && ref.namespace === undefined) throw wrong(`${type.plural} live in a namespace`)
  if (!isName(ref.name) || (ref.namespace !== undefined && !DNS_LABEL.test(ref.namespace))) {
    throw new ApiError('NotFound', `no object of ${type.plural} can have the name ${quote(ref.name)}`)
  }
  return `${collectionPath(type, ref.namespace)}/${ref.name}`
}

export function isName(name: string): boolean {
  return name.length <= MAX_SUBDOMAIN && DNS_SUBDOMAIN.test(name)
}

function rootOf(type: ResourceType): string {
  const known = checkedTypes.get(type)
  if (known !== undefined) return known
  const { group, version, plural } = type
  if ((group !== '' && !isName(group)) || !DNS_LABEL.test(version) || !DNS_LABEL.test(plural)) {
    throw wrong(`${quote(`${group}/${version}/${plural}`)} is not a resource type`)
  }
  const root = group === '' ? `/api/${version}` : `/apis/${group}/${version}`
  checkedTypes.set(type, root)
  return root
}

function wrong(message: string): ApiError {
  return new ApiError('BadRequest', message)
}

function quote(text: string): string {
  return JSON.stringify(text.slice(0, 100))
}
