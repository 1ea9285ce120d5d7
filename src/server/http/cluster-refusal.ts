import { isApiError } from '../../kube/client.ts'
import { RefusedError } from './refused-error.ts'

/** What the API server does not take, although it passed our rules: those of the cluster's owner. */
export function clusterRefusal(error: unknown): unknown {
  if (!isApiError(error, 'Invalid', 'BadRequest', 'TooLarge')) return error
  return new RefusedError('invalid', { detail: `The cluster refuses it: ${error.message}`, cause: error })
}
