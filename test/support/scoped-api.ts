/**
 * An API that shows one organization only. All test files share one API server, and each runs a controller of
 * its own, which would otherwise serve the organizations of the others as well.
 */

import type { KubernetesClient } from '../../src/adapters/kubernetes/kubernetes-client.ts'
import type { ResourceType } from '../../src/api/meta.ts'
import type { ListQuery } from '../../src/ports/kubernetes.ts'

/** @param organizations names of namespaces; with more than one, those are filtered from what all have */
export function scopedApi(api: KubernetesClient, organization: string): KubernetesClient {
  const scope = (type: ResourceType, query: ListQuery): ListQuery => {
    if (type.plural === 'namespaces') return { ...query, fieldSelector: `metadata.name=${organization}` }
    if (!type.namespaced || query.namespace !== undefined) return query
    return { ...query, namespace: organization }
  }
  return {
    ...api,
    list: (type, query, from) => api.list(type, scope(type, query), from),
    watch: (type, query, version, signal) => api.watch(type, scope(type, query), version, signal),
  }
}
