import { type ApiError, isApiError } from './client.ts'

export type FailedAttempt = {
  error: ApiError
  /** Whether the server may have acted on it. */
  fate: 'not done' | 'unknown'
  /** Doing it twice is doing it once. */
  repeatable: boolean
  /** How many attempts this call has made, 1 or more. */
  attempt: number
}

export const MAX_ATTEMPTS = 5
const FIRST_WAIT_MS = 50

/**
 * How long to wait before the next attempt, or undefined to give up. What is not repeatable is repeated only when it
 * surely was not done (429, or the connection was refused).
 * @param chance uniform in [0, 1)
 */
export function retryWait(failed: FailedAttempt, chance: number): number | undefined {
  if (failed.attempt >= MAX_ATTEMPTS || !worthRepeating(failed)) return undefined
  const wait = failed.error.retryAfterMs ?? FIRST_WAIT_MS * 2 ** (failed.attempt - 1)
  return wait * (1 + chance / 2)
}

function worthRepeating({ error, fate, repeatable }: FailedAttempt): boolean {
  if (!isApiError(error, 'TooManyRequests', 'Unavailable')) return false
  return repeatable || fate === 'not done'
}
