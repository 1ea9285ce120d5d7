import { type ApiError, isApiError } from '../../kube/client.ts'
import { RefusedError } from './refused-error.ts'

const BUSY_SECONDS = 1
const FULL_SECONDS = 30

/**
 * What the cluster said, as the refusal that a client can act on: the one place where that is decided. Undefined for
 * what is nobody's business but the operator's.
 */
export function refusalOf(error: unknown): RefusedError | undefined {
  if (error instanceof RefusedError) return error
  if (isApiError(error, 'NoSpace')) {
    const detail = "The cluster's store is full; nothing was accepted."
    return new RefusedError('overloaded', { detail, retryAfter: FULL_SECONDS, cause: error })
  }
  // Not the organization's, which is told where an endpoint is made.
  if (isApiError(error, 'Quota')) {
    const detail = "A quota of the cluster's does not allow it now."
    return new RefusedError('overloaded', { detail, retryAfter: FULL_SECONDS, cause: error })
  }
  // A right of Davit's own that is missing, or that an API server which starts does not know yet.
  if (isApiError(error, 'Forbidden')) {
    const detail = 'The cluster does not let Davit do that now; nothing was done.'
    return new RefusedError('overloaded', { detail, retryAfter: BUSY_SECONDS, cause: error })
  }
  // It says so instead of doing anything.
  if (isApiError(error, 'TooManyRequests')) {
    return new RefusedError('overloaded', { retryAfter: secondsOf(error), cause: error })
  }
  // Not authorized is Davit itself here, whose own token is to be renewed.
  if (isApiError(error, 'Unavailable', 'Unauthorized')) {
    return new RefusedError('unavailable', { retryAfter: secondsOf(error), cause: error })
  }
  // The organization is being deleted: for its owner it is gone.
  if (isApiError(error, 'Terminating')) return new RefusedError('not_found', { cause: error })
  return undefined
}

function secondsOf({ retryAfterMs = 0 }: ApiError): number {
  return Math.max(BUSY_SECONDS, Math.ceil(retryAfterMs / 1000))
}
