import type { ResourceType } from '../apis/meta.ts'
import { isApiError, type ObjectRef, type RawObject, type ResourceReader } from './client.ts'

/** An object as it is now; undefined where there is none. @throws ApiError whatever else the API server says */
export async function findObject(
  resources: Pick<ResourceReader, 'get'>,
  type: ResourceType,
  ref: ObjectRef,
): Promise<RawObject | undefined> {
  try {
    return await resources.get(type, ref)
  } catch (error) {
    if (isApiError(error, 'NotFound')) return undefined
    throw error
  }
}
