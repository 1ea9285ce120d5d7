import { isApiError } from '../kube/client.ts'
import { RefusedError } from './http/refused-error.ts'

/** Another writer may come between the look and the write so often. */
const MAX_TRIES = 10

/** Somebody else was quicker, and what was to be written is another or has gone: what was decided is decided again. */
export async function retryOnConflict<T>(work: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await work()
    } catch (error) {
      if (!isApiError(error, 'Conflict', 'AlreadyExists', 'NotFound')) throw error
      if (tries === MAX_TRIES) throw new RefusedError('overloaded', { retryAfter: 1, cause: error })
    }
  }
}
