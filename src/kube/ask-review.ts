import { ApiError, isApiError } from './client.ts'
import type { Transport } from './transport.ts'

/**
 * Asks the API server for a verdict on somebody. Forbidden is said of Davit itself, and also by an API server that has
 * just started and does not know the roles yet: then there is no verdict, and it comes later.
 * @throws ApiError, never `Forbidden`
 */
export async function postReview(
  transport: Pick<Transport, 'call'>,
  path: string,
  review: object,
): Promise<Buffer> {
  try {
    return await transport.call({ verb: 'create', repeatable: true, path, body: JSON.stringify(review) })
  } catch (error) {
    if (!isApiError(error, 'Forbidden')) throw error
    throw new ApiError('Unavailable', error.message, { cause: error })
  }
}
