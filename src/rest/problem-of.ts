import { isApiError } from '../ports/kubernetes.ts'
import { RefusedError } from '../ports/refused-error.ts'
import { Problem } from './problem.ts'

const COME_AGAIN_S = 1

/** What a request is answered with when something was thrown; only what was meant for the client is in it. */
export function problemOf(error: unknown): Problem {
  if (error instanceof Problem) return error
  if (error instanceof RefusedError) return refusal(error)
  if (isApiError(error, 'Unavailable', 'TooManyRequests', 'Unauthorized')) return away(error.retryAfterMs)
  if (isApiError(error, 'NoSpace')) return new Problem('overloaded', comeAgain())
  return new Problem('internal')
}

function refusal({ code, detail, places, retryAfter }: RefusedError): Problem {
  // The same for everything that is not there, whatever the service knows of it.
  if (code === 'not_found') return new Problem('not_found')
  const problem = new Problem(code, {
    ...(detail === undefined ? {} : { detail }),
    ...(places.length === 0 ? {} : { errors: places }),
    ...(retryAfter === undefined ? {} : comeAgain(retryAfter)),
  })
  // Every 503 says when to come again.
  return problem.status === 503 && retryAfter === undefined
    ? new Problem(code, { ...problem.details, ...comeAgain() })
    : problem
}

function away(retryAfterMs = COME_AGAIN_S * 1000): Problem {
  return new Problem('unavailable', comeAgain(retryAfterMs / 1000))
}

function comeAgain(seconds = COME_AGAIN_S): { headers: Record<string, string> } {
  return { headers: { 'retry-after': String(Math.max(1, Math.ceil(seconds))) } }
}
