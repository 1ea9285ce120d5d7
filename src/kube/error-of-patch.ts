import { ApiError, isApiError, type RawObject } from './client.ts'

/**
 * A patch that asks for no version is merged again by the API server itself when somebody else was faster, and after
 * five times it gives up with 409. That is no conflict for whoever made the patch: it holds as it is, and may be
 * sent again. Only a version that it asks for can be in conflict with what is there.
 */
export function patchError(error: unknown, patch: object): unknown {
  if (!isApiError(error, 'Conflict') || asksForVersion(patch)) return error
  return new ApiError('Unavailable', error.message, { status: error.status, cause: error })
}

function asksForVersion(patch: Partial<Pick<RawObject, 'metadata'>>): boolean {
  return patch.metadata?.resourceVersion !== undefined
}
