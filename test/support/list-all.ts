import type { ResourceType } from '../../src/apis/meta.ts'
import type { ListQuery, RawObject, ResourceReader } from '../../src/kube/client.ts'

/** Reads every object of a list, page by page: a list returns at most 500. */
export async function listAll(
  api: Pick<ResourceReader, 'list'>,
  type: ResourceType,
  query: ListQuery,
): Promise<RawObject[]> {
  const found: RawObject[] = []
  let from: string | undefined
  do {
    const page = await api.list(type, query, from)
    found.push(...page.items)
    from = page.continue
  } while (from !== undefined)
  return found
}
