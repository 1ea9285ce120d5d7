import type { ResourceType } from '../../src/apis/meta.ts'
import type { KubernetesClient } from '../../src/kube/resources.ts'
import { nameOfRight } from './shipped-rights.ts'

/**
 * An API that records its use, in the format of `nameOfRight`.
 *
 * @param deeds calls are added to it
 * @param before called before each call except lists and watches
 */
export function recordedApi(
  api: KubernetesClient,
  deeds: Set<string>,
  before: (deed: string) => Promise<void> = async () => undefined,
): KubernetesClient {
  const note = (verb: string, { group, plural }: ResourceType, subresource = '') => {
    const deed = nameOfRight({ verb, group, resource: plural, subresource })
    deeds.add(deed)
    return deed
  }
  return {
    ...api,
    async get(type, ref) {
      await before(note('get', type))
      return await api.get(type, ref)
    },
    list(type, query, from) {
      note('list', type)
      return api.list(type, query, from)
    },
    watch(type, query, version, signal) {
      note('watch', type)
      return api.watch(type, query, version, signal)
    },
    async create(type, object, options) {
      await before(note('create', type))
      return await api.create(type, object, options)
    },
    async patch(type, ref, patch, options) {
      await before(note('patch', type, options?.subresource))
      return await api.patch(type, ref, patch, options)
    },
    async delete(type, ref, precondition, options) {
      await before(note('delete', type))
      await api.delete(type, ref, precondition, options)
    },
  }
}
