import { type CloudError, isCloudError } from '../../credentials/cloud.ts'
import { type ApiError, isApiError, UnreadableError } from '../../kube/client.ts'
import { sanitizeText } from '../../lib/text.ts'
import { KeysDamagedError } from '../../webhooks/endpoints/signing-keys.ts'
import { OverloadedError } from '../../webhooks/log/group-commit.ts'
import type { EventLog } from '../../webhooks/log/store.ts'

/** Why a service of the facade does not do what it was asked for; each is answered as the problem of that name. */
export type RefusedCode =
  | 'not_found'
  | 'endpoint_disabled'
  | 'idempotency_conflict'
  | 'managed_elsewhere'
  | 'too_many_endpoints'
  | 'too_many_credentials'
  | 'too_many_secrets'
  /** There is no cloud account to keep a secret in. */
  | 'secrets_settings_required'
  /** There is one, and it does not take secrets. */
  | 'cloud_account_not_ready'
  | 'precondition_failed'
  /** What is stored of it cannot be used. */
  | 'unreadable'
  | 'invalid'
  /** Nothing was done; there is no room for it now. */
  | 'overloaded'
  | 'intake_full'
  /** The cluster did not answer: it is not known whether it was done. */
  | 'unavailable'
  /** The cloud did not answer; nothing of it is in force. */
  | 'cloud_unavailable'
  /** Stored, and not in force yet. */
  | 'not_acknowledged'

/** One place in the request that is wrong. */
export type RefusedPlace = {
  /** JSON pointer into the body. */
  pointer: string
  message: string
}

/** A condition of a resource, which says why. */
export type RefusedCondition = {
  type: string
  status: 'True' | 'False' | 'Unknown'
  reason: string
  message: string
}

export type RefusedDetails = {
  /** For people: what is wrong with this request, and what to do. Nothing internal. */
  detail?: string
  places?: readonly RefusedPlace[]
  condition?: RefusedCondition
  /** When to come again, in seconds; given where that helps. */
  retryAfter?: number
  cause?: unknown
}

export class RefusedError extends Error {
  override readonly name = 'RefusedError'
  readonly code: RefusedCode
  readonly detail: string | undefined
  readonly places: readonly RefusedPlace[]
  readonly condition: RefusedCondition | undefined
  readonly retryAfter: number | undefined

  constructor(code: RefusedCode, details: RefusedDetails = {}) {
    super(details.detail ?? code, details.cause === undefined ? undefined : { cause: details.cause })
    this.code = code
    this.detail = details.detail
    this.places = details.places ?? []
    this.condition = details.condition
    this.retryAfter = details.retryAfter
  }
}

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

/**
 * What a request is refused with (RFC 9457). The codes are stable: clients branch on them, `docs/errors.md` and
 * the OpenAPI document list them.
 */

type Entry = {
  status: number
  title: string
  /** What there is to know beyond the title, and to do: in the documentation, and in each answer that has no words of its own. */
  description: string
}

export const PROBLEMS = {
  bad_request: {
    status: 400,
    title: 'The request cannot be understood',
    description: 'Its path, query or a header is not well-formed.',
  },
  bad_json: {
    status: 400,
    title: 'The body is not JSON as it has to be',
    description:
      'It does not parse, names a member twice, nests too deep, or uses a name that no member may have.',
  },
  unauthenticated: {
    status: 401,
    title: 'The API key is missing or not valid',
    description:
      'Send the key alone as the value of Authorization, without a word before it. A key ends with its time, or when what it is bound to is deleted.',
  },
  forbidden: {
    status: 403,
    title: 'The key may not do this',
    description: 'The organization is visible to the key, but RBAC does not allow the operation.',
  },
  not_found: {
    status: 404,
    title: 'There is nothing here',
    description: 'No such route, organization or object, or none that the key may see.',
  },
  method_not_allowed: {
    status: 405,
    title: 'The method does not exist here',
    description: 'The header Allow names those that do.',
  },
  request_timeout: {
    status: 408,
    title: 'The request came too slowly',
    description: 'Headers and body have to arrive within seconds.',
  },
  endpoint_disabled: {
    status: 409,
    title: 'The endpoint is disabled',
    description: 'Enable it before pinging it or delivering to it again.',
  },
  idempotency_conflict: {
    status: 409,
    title: 'The Idempotency-Key was used for something else',
    description: 'A key stands for one request for 24 hours: send the same body again, or another key.',
  },
  managed_elsewhere: {
    status: 409,
    title: 'It is managed elsewhere',
    description:
      'Its spec is applied from Git or by Helm, or its secret comes from a Secret of the cluster: change it there. Of an endpoint the status can be changed here all the same.',
  },
  too_many_endpoints: {
    status: 409,
    title: 'The organization has as many endpoints as it may',
    description: 'Delete one first.',
  },
  too_many_credentials: {
    status: 409,
    title: 'The organization has as many registry credentials as it may',
    description: 'Delete one first.',
  },
  too_many_secrets: {
    status: 409,
    title: 'As many signing secrets as may be are in force',
    description: 'Wait until one expires, or roll with expireOld.',
  },
  secrets_settings_required: {
    status: 409,
    title: 'There is no cloud account to keep the secret in',
    description:
      'Connect one first (`PUT /secrets-settings`). Nothing was stored. A credential of the type ecr needs none.',
  },
  cloud_account_not_ready: {
    status: 409,
    title: 'The cloud account does not take the secret',
    description:
      "Nothing was stored. `condition` is that of the secrets settings, where they are why; `detail` has the cloud's own words.",
  },
  unreadable: {
    status: 409,
    title: 'What is stored of it cannot be used',
    description:
      'It breaks the rules of this version: mend it with kubectl, or delete it. `detail` says more.',
  },
  cursor_expired: {
    status: 410,
    title: 'The cursor has expired',
    description: 'Begin the list again without it.',
  },
  precondition_failed: {
    status: 412,
    title: 'The object has changed',
    description: 'It no longer has the ETag of If-Match: read it, and decide again.',
  },
  body_too_large: {
    status: 413,
    title: 'The body is too large',
    description: 'A body may have 256 KiB.',
  },
  uri_too_long: {
    status: 414,
    title: 'The URL is too long',
    description: 'It may have 2,048 characters.',
  },
  unsupported_media_type: {
    status: 415,
    title: 'The body is of a wrong type',
    description: 'Send Content-Type: application/json, in UTF-8 and without a Content-Encoding.',
  },
  invalid: {
    status: 422,
    title: 'The request is well-formed, and wrong',
    description: '`errors` names each place (JSON pointer) and what is allowed there.',
  },
  headers_too_large: {
    status: 431,
    title: 'The headers are too large',
    description: 'All of them together may have 16 KiB.',
  },
  rate_limited: {
    status: 429,
    title: 'Too many requests',
    description: 'Come again after the seconds of Retry-After.',
  },
  internal: {
    status: 500,
    title: 'Something went wrong here',
    description: 'Give the requestId to whoever runs Davit.',
  },
  overloaded: {
    status: 503,
    title: 'There is too much to do',
    description: 'Nothing was done; come again after the seconds of Retry-After.',
  },
  intake_full: {
    status: 503,
    title: 'The organization has as many deliveries waiting as it may',
    description: 'Nothing was accepted. `detail` names the endpoint that holds most of them.',
  },
  unavailable: {
    status: 503,
    title: 'The cluster does not answer',
    description: 'It is not known whether the request was done; repeat it with the same Idempotency-Key.',
  },
  cloud_unavailable: {
    status: 503,
    title: 'The cloud account does not answer',
    description: 'Nothing of it is in force; come again after the seconds of Retry-After.',
  },
  not_acknowledged: {
    status: 503,
    title: 'The change is stored, and not in force yet',
    description: 'It stays and will be. Read the object again.',
  },
} as const satisfies Record<string, Entry>

export type ProblemCode = keyof typeof PROBLEMS

/** One place in the request that is wrong. */
export type ProblemPlace = {
  /** JSON pointer into the body, or the name of a parameter. */
  pointer: string
  message: string
}

export type ProblemDetails = {
  /** For people: what is wrong with this request, and what to do. Nothing internal. */
  detail?: string
  errors?: readonly ProblemPlace[]
  condition?: RefusedCondition
  headers?: Readonly<Record<string, string>>
  /** For the log alone. */
  cause?: unknown
}

/** Thrown by whatever refuses a request; anything else that is thrown is answered as `internal`. */
export class Problem extends Error {
  override readonly name = 'Problem'
  readonly code: ProblemCode
  readonly details: ProblemDetails

  constructor(code: ProblemCode, details: ProblemDetails = {}) {
    super(details.detail ?? PROBLEMS[code].title, { cause: details.cause })
    this.code = code
    this.details = details
  }

  get status(): number {
    return PROBLEMS[this.code].status
  }
}

/** The body of the answer. */
export function problemBody({ code, details }: Problem, requestId: string) {
  const { status, title } = PROBLEMS[code]
  return {
    type: `urn:davit:problem:${code}`,
    title,
    status,
    code,
    ...detailOf(code, details),
    ...(details.errors === undefined ? {} : { errors: details.errors }),
    ...(details.condition === undefined ? {} : { condition: details.condition }),
    requestId,
  }
}

/** Places say themselves what is wrong, and what is allowed there. */
function detailOf(code: ProblemCode, { detail, errors }: ProblemDetails): { detail?: string } {
  if (detail !== undefined) return { detail }
  return errors === undefined ? { detail: PROBLEMS[code].description } : {}
}

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

/** What the API server does not take, although it passed our rules: those of the cluster's owner. */
export function clusterRefusal(error: unknown): unknown {
  if (!isApiError(error, 'Invalid', 'BadRequest', 'TooLarge')) return error
  return new RefusedError('invalid', { detail: `The cluster refuses it: ${error.message}`, cause: error })
}

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

const BUSY_SECONDSOfRefusals = 1
const MENDED_SECONDSOfRefusals = 30

/** Runs `work`; what the cluster says, and that there is too much to do, comes out as a refusal. */
export async function withRefusals<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof OverloadedError) {
      const detail = 'Too much waits to be stored; nothing was accepted.'
      throw new RefusedError('overloaded', { detail, retryAfter: BUSY_SECONDSOfRefusals, cause: error })
    }
    throw refusalOf(error) ?? unreadable(error) ?? error
  }
}

/** In words of its own: which object, and what is in it, is the operator's business. */
function unreadable(error: unknown): RefusedError | undefined {
  const detail = detailOfOfRefusals(error)
  return detail === undefined ? undefined : new RefusedError('unreadable', { detail, cause: error })
}

function detailOfOfRefusals(error: unknown): string | undefined {
  if (error instanceof UnreadableError) return 'It does not fit the rules of this version.'
  if (!(error instanceof KeysDamagedError)) return undefined
  return 'Its signing keys cannot be read. Whoever runs Davit can restore them, or delete them for new ones.'
}

/**
 * The log, in the operator's own namespace: where that takes nothing, since its quota is used up, a right is missing or
 * it is being deleted, the organization is there all the same, and its clients have to come again.
 */
export function withLogRefusals(log: EventLog): EventLog {
  return {
    append: async (events) => {
      try {
        return await log.append(events)
      } catch (error) {
        if (!isApiError(error, 'Quota', 'Forbidden', 'Terminating', 'NotFound')) throw error
        const detail = 'The delivery log takes no events now; nothing was accepted.'
        throw new RefusedError('overloaded', { detail, retryAfter: MENDED_SECONDSOfRefusals, cause: error })
      }
    },
  }
}
