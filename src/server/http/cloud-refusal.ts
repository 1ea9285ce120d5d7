import { type CloudError, isCloudError } from '../../credentials/cloud-error.ts'
import { sanitizeText } from '../../lib/plain-text.ts'
import { RefusedError } from './refused-error.ts'

/** The cloud is asked again, by the adapter, before it comes to this. */
const AGAIN_SECONDS = 5
/** Who must give Davit an identity, or undo what was changed, takes longer. */
const MENDED_SECONDS = 30
const LONGEST = 1000

/** What the cloud said of a secret that was to be stored, as the refusal that a client can act on. */
export function cloudRefusal(error: unknown): unknown {
  if (!isCloudError(error)) return error
  switch (error.remedy) {
    case 'permissions':
    case 'spec':
      return error.code === 'NoIdentity'
        ? unavailable(error, MENDED_SECONDS)
        : new RefusedError('cloud_account_not_ready', { detail: describeCloudError(error), cause: error })
    case 'retry':
      return error.code === 'Busy' ? busy(error) : unavailable(error, AGAIN_SECONDS)
    case 'gone':
      return unavailable(error, AGAIN_SECONDS)
  }
}

function busy(error: CloudError): RefusedError {
  const detail = 'Too many secrets wait to be stored in the account and its region; nothing was stored.'
  return new RefusedError('overloaded', { detail, retryAfter: AGAIN_SECONDS, cause: error })
}

function unavailable(error: CloudError, retryAfter: number): RefusedError {
  return new RefusedError('cloud_unavailable', {
    detail: describeCloudError(error),
    retryAfter,
    cause: error,
  })
}

/** The code first, which is what people look up. */
export function describeCloudError({ code, message, operation }: CloudError): string {
  const about = operation === '' ? code : `${code} (${operation})`
  return sanitizeText(message === '' ? `${about}.` : `${about}: ${message}`, LONGEST)
}
