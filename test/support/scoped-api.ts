/**
 * An API restricted to some organizations. All test files share one API server, and each runs its own controller, which would
 * otherwise serve the organizations of other files as well.
 */

import type { ResourceType } from '../../src/apis/meta.ts'
import type { ListQuery, RawObject, WatchEvent } from '../../src/kube/client.ts'
import type { KubernetesClient } from '../../src/kube/resources.ts'

/** @param organizations names of namespaces; several ones are filtered from the whole cluster */
export function scopedApi(api: KubernetesClient, organizations: readonly string[]): KubernetesClient {
  const [only = ''] = organizations
  return organizations.length > 1 ? filteredApi(api, new Set(organizations)) : narrowedApi(api, only)
}

function narrowedApi(api: KubernetesClient, organization: string): KubernetesClient {
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

function filteredApi(api: KubernetesClient, organizations: ReadonlySet<string>): KubernetesClient {
  const isOurs = (type: ResourceType, { metadata }: RawObject) => {
    const namespace = type.plural === 'namespaces' ? metadata?.name : metadata?.namespace
    return organizations.has(namespace ?? '')
  }
  const isWide = (type: ResourceType, query: ListQuery) =>
    type.plural === 'namespaces' || (type.namespaced && query.namespace === undefined)
  return {
    ...api,
    async list(type, query, from) {
      const page = await api.list(type, query, from)
      return isWide(type, query) ? { ...page, items: page.items.filter((raw) => isOurs(type, raw)) } : page
    },
    watch(type, query, version, signal) {
      const events = api.watch(type, query, version, signal)
      return isWide(type, query) ? filtered(events, (raw) => isOurs(type, raw)) : events
    },
  }
}

async function* filtered(
  batches: AsyncIterable<WatchEvent[]>,
  isWanted: (object: RawObject) => boolean,
): AsyncIterable<WatchEvent[]> {
  for await (const batch of batches)
    yield batch.filter((event) => event.type === 'BOOKMARK' || isWanted(event.object))
}
