/** What the cluster said, as the refusal that a client can act on. */
import { isApiError } from '../../ports/kubernetes.ts'
import { RefusedError } from '../../ports/refused-error.ts'
import { OverloadedError } from '../../runtime/group-commit.ts'

const BUSY_SECONDS = 1
const FULL_SECONDS = 30

/** The error to throw in the place of `error`; itself where it is one of ours, or nobody's business but the operator's. */
export function refusalOf(error: unknown): unknown {
  if (error instanceof OverloadedError) {
    const detail = 'Too much waits to be stored; nothing was accepted.'
    return new RefusedError('overloaded', { detail, retryAfter: BUSY_SECONDS, cause: error })
  }
  if (isApiError(error, 'NoSpace')) {
    const detail = "The cluster's store is full; nothing was accepted."
    return new RefusedError('overloaded', { detail, retryAfter: FULL_SECONDS, cause: error })
  }
  if (isApiError(error, 'TooManyRequests')) {
    const retryAfter = Math.max(BUSY_SECONDS, Math.ceil((error.retryAfterMs ?? 0) / 1000))
    return new RefusedError('overloaded', { retryAfter, cause: error })
  }
  if (isApiError(error, 'Unavailable')) {
    return new RefusedError('unavailable', { retryAfter: BUSY_SECONDS, cause: error })
  }
  // The organization is being deleted: for its owner it is gone.
  if (isApiError(error, 'Terminating')) return new RefusedError('not_found', { cause: error })
  return error
}

/** Runs `work`; what the cluster says comes out as a refusal. */
export async function refusing<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw refusalOf(error)
  }
}
