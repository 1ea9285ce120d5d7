import { type CloudError, isCloudError } from '../../credentials/cloud.ts'
import { type ApiError, isApiError, UnreadableError } from '../../kube/client.ts'
import { sanitizeText } from '../../lib/text.ts'
import { KeysDamagedError } from '../../webhooks/endpoints/signing-keys.ts'
import { OverloadedError } from '../../webhooks/log/group-commit.ts'
import type { EventLog } from '../../webhooks/log/store.ts'

/**
 * Why a request is refused, as a problem document (RFC 9457). Services throw a `Problem`; `problemOf` turns everything else
 * that is thrown into one. The codes are stable: clients branch on them, and `docs/errors.md` and the OpenAPI document list them.
 */

type Entry = {
  status: number
  title: string
  /** Explanation and advice for the documentation, and for each response without a `detail`. */
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

/** The condition of a resource that explains the problem. */
export type ProblemCondition = {
  type: string
  status: 'True' | 'False' | 'Unknown'
  reason: string
  message: string
}

export type ProblemDetails = {
  /** For people: what is wrong with this request and what to do. Nothing internal. */
  detail?: string
  errors?: readonly ProblemPlace[]
  condition?: ProblemCondition
  /** Seconds until a retry makes sense. */
  retryAfter?: number
  headers?: Readonly<Record<string, string>>
  /** For the log only. */
  cause?: unknown
}

export class Problem extends Error {
  override readonly name = 'Problem'
  readonly code: ProblemCode
  readonly detail: string | undefined
  readonly errors: readonly ProblemPlace[] | undefined
  readonly condition: ProblemCondition | undefined
  readonly retryAfter: number | undefined
  readonly #headers: Readonly<Record<string, string>> | undefined

  constructor(code: ProblemCode, details: ProblemDetails = {}) {
    super(details.detail ?? PROBLEMS[code].title, { cause: details.cause })
    this.code = code
    this.detail = details.detail
    this.errors = details.errors
    this.condition = details.condition
    this.retryAfter = details.retryAfter
    this.#headers = details.headers
  }

  get status(): number {
    return PROBLEMS[this.code].status
  }

  /** Every 503 says when to retry. */
  get headers(): Record<string, string> {
    const seconds = this.retryAfter ?? (this.status === 503 ? BUSY_SECONDS : undefined)
    return {
      ...(seconds === undefined ? {} : { 'retry-after': String(Math.max(1, Math.ceil(seconds))) }),
      ...this.#headers,
    }
  }
}

/** The body of the response. Without a detail, `errors` explain themselves; otherwise the general description does. */
export function problemBody({ code, detail, errors, condition }: Problem, requestId: string) {
  const { status, title, description } = PROBLEMS[code]
  const text = detail ?? (errors ? undefined : description)
  return {
    type: `urn:davit:problem:${code}`,
    title,
    status,
    code,
    ...(text === undefined ? {} : { detail: text }),
    ...(errors === undefined ? {} : { errors }),
    ...(condition === undefined ? {} : { condition }),
    requestId,
  }
}

const BUSY_SECONDS = 1
const STALE_SECONDS = 2
/** The adapter has already retried the cloud before it gives up. */
const CLOUD_SECONDS = 5
/** For what a person has to fix, or what takes a while to free. */
const FIX_SECONDS = 30

/** The response to anything that was thrown; only text meant for the client gets into it. */
export function problemOf(error: unknown): Problem {
  if (error instanceof Problem) return error
  return ofCluster(error) ?? ofCloud(error) ?? ofStored(error) ?? new Problem('internal')
}

/** The one place that decides what an error of the cluster means to a client. */
function ofCluster(error: unknown): Problem | undefined {
  if (error instanceof OverloadedError)
    return overloaded('Too much waits to be stored; nothing was accepted.', BUSY_SECONDS, error)
  if (isApiError(error, 'NoSpace'))
    return overloaded("The cluster's store is full; nothing was accepted.", FIX_SECONDS, error)
  // Not a quota of the organization: creating an endpoint or a credential handles that one.
  if (isApiError(error, 'Quota'))
    return overloaded("A quota of the cluster's does not allow it now.", FIX_SECONDS, error)
  // Davit itself lacks a permission, or the API server has just started and has not loaded it yet.
  if (isApiError(error, 'Forbidden'))
    return overloaded('The cluster does not let Davit do that now; nothing was done.', BUSY_SECONDS, error)
  if (isApiError(error, 'TooManyRequests'))
    return new Problem('overloaded', { retryAfter: secondsOf(error), cause: error })
  // Unauthorized is Davit itself, whose token has to be renewed.
  if (isApiError(error, 'Unavailable', 'Unauthorized'))
    return new Problem('unavailable', { retryAfter: secondsOf(error), cause: error })
  // The organization is being deleted: for its owner it is gone.
  if (isApiError(error, 'Terminating')) return new Problem('not_found', { cause: error })
  return undefined
}

function secondsOf({ retryAfterMs = 0 }: ApiError): number {
  return Math.max(BUSY_SECONDS, Math.ceil(retryAfterMs / 1000))
}

function overloaded(detail: string, retryAfter: number, cause?: unknown): Problem {
  return new Problem('overloaded', { detail, retryAfter, cause })
}

function ofCloud(error: unknown): Problem | undefined {
  if (!isCloudError(error)) return undefined
  const { code, remedy } = error
  const detail = describeCloudError(error)
  if (remedy === 'permissions' || remedy === 'spec')
    return code === 'NoIdentity'
      ? new Problem('cloud_unavailable', { detail, retryAfter: FIX_SECONDS, cause: error })
      : new Problem('cloud_account_not_ready', { detail, cause: error })
  if (remedy === 'retry' && code === 'Busy') {
    const busy = 'Too many secrets wait to be stored in the account and its region; nothing was stored.'
    return overloaded(busy, CLOUD_SECONDS, error)
  }
  return new Problem('cloud_unavailable', { detail, retryAfter: CLOUD_SECONDS, cause: error })
}

const LONGEST_CLOUD_ERROR = 1000

/** The code first, since that is what people look up. */
export function describeCloudError({ code, message, operation }: CloudError): string {
  const about = operation === '' ? code : `${code} (${operation})`
  return sanitizeText(message === '' ? `${about}.` : `${about}: ${message}`, LONGEST_CLOUD_ERROR)
}

/** The object and its content are the cluster operator's business, so the detail names neither. */
function ofStored(error: unknown): Problem | undefined {
  if (error instanceof UnreadableError)
    return new Problem('unreadable', { detail: 'It does not fit the rules of this version.', cause: error })
  if (!(error instanceof KeysDamagedError)) return undefined
  const detail =
    'Its signing keys cannot be read. Whoever runs Davit can restore them, or delete them for new ones.'
  return new Problem('unreadable', { detail, cause: error })
}

/** An object that passed our rules and not those of the API server, say an admission policy. Other errors stay as they are. */
export function rejectedByCluster(error: unknown): unknown {
  if (!isApiError(error, 'Invalid', 'BadRequest', 'TooLarge')) return error
  return new Problem('invalid', { detail: `The cluster refuses it: ${error.message}`, cause: error })
}

/**
 * Refuses to decide on data that may have changed unseen.
 * @param what is not known, as the beginning of a sentence
 * @param behind why, in words; undefined while everything is known
 * @throws Problem overloaded
 */
export function refuseWhileStale(what: string, behind: () => string | undefined): void {
  const why = behind()
  if (why !== undefined) throw overloaded(`${what} is not known: ${why}.`, STALE_SECONDS)
}

/**
 * The log is in Davit's own namespace. If that takes nothing (quota used up, permission missing, being deleted), the
 * organization still exists, and its clients have to retry.
 */
export function withLogProblems(log: EventLog): EventLog {
  return {
    append: async (events) => {
      try {
        return await log.append(events)
      } catch (error) {
        if (!isApiError(error, 'Quota', 'Forbidden', 'Terminating', 'NotFound')) throw error
        throw overloaded('The delivery log takes no events now; nothing was accepted.', FIX_SECONDS, error)
      }
    },
  }
}
