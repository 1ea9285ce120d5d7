import { Problem } from './problems.ts'
import { refusalOf } from './refusal-of.ts'
import type { RefusedError } from './refused-error.ts'

const COME_AGAIN_S = 1

/** What a request is answered with when something was thrown; only what was meant for the client is in it. */
export function problemOf(error: unknown): Problem {
  if (error instanceof Problem) return error
  const refused = refusalOf(error)
  return refused ? problemOfRefusal(refused) : new Problem('internal')
}

function problemOfRefusal(refused: RefusedError): Problem {
  const { code, detail, places, condition, retryAfter, cause } = refused
  // The same for everything that is not there, whatever the service knows of it.
  if (code === 'not_found') return new Problem('not_found')
  const problem = new Problem(code, {
    ...(detail === undefined ? {} : { detail }),
    ...(places.length === 0 ? {} : { errors: places }),
    ...(condition === undefined ? {} : { condition }),
    ...(retryAfter === undefined ? {} : comeAgain(retryAfter)),
    cause,
  })
  // Every 503 says when to come again.
  return problem.status === 503 && retryAfter === undefined
    ? new Problem(code, { ...problem.details, ...comeAgain() })
    : problem
}

function comeAgain(seconds = COME_AGAIN_S): { headers: Record<string, string> } {
  return { headers: { 'retry-after': String(Math.max(1, Math.ceil(seconds))) } }
}
