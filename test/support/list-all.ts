import type { ResourceType } from '../../src/apis/meta.ts'
import type { ListQuery, RawObject, ResourceReader } from '../../src/kube/client.ts'

/** Every object of a list, page by page: a list answers with 500 at most. */
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
