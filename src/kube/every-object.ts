import type { ResourceType } from '../apis/meta.ts'
import type { ListQuery, RawObject, ResourceReader } from './client.ts'

/** The objects of a list, page after page, as they come; for lists that are looked through once. @throws ApiError */
export async function* listObjects(
  resources: Pick<ResourceReader, 'list'>,
  type: ResourceType,
  query: ListQuery,
): AsyncGenerator<RawObject, void> {
  let from: string | undefined
  do {
    const page = await resources.list(type, query, from)
    yield* page.items
    from = page.continue
  } while (from !== undefined)
}
