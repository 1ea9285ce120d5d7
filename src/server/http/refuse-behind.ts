import { RefusedError } from './refused-error.ts'

const RETRY_AFTER_SECONDS = 2

/**
 * Nothing is decided on what may have changed unseen.
 * @param what is not known, as the beginning of a sentence
 * @param behind why, in words; undefined while all is known
 * @throws RefusedError overloaded
 */
export function refuseWhileStale(what: string, behind: () => string | undefined): void {
  const why = behind()
  if (why === undefined) return
  throw new RefusedError('overloaded', {
    detail: `${what} is not known: ${why}.`,
    retryAfter: RETRY_AFTER_SECONDS,
  })
}
