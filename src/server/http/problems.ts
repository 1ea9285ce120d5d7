import { type CloudError, isCloudError } from '../../credentials/cloud.ts'
import { type ApiError, isApiError, UnreadableError } from '../../kube/client.ts'
import { sanitizeText } from '../../lib/text.ts'
import { KeysDamagedError } from '../../webhooks/endpoints/signing-keys.ts'
import { OverloadedError } from '../../webhooks/log/group-commit.ts'
import type { EventLog } from '../../webhooks/log/store.ts'

/**
 * Why a request is refused, as a problem document (RFC 9457). Services throw a `Problem`; `problemOf` turns everything else
 * that is thrown into one. The codes are stable: clients branch on them, and `docs/reference/errors.md` and the OpenAPI document list them.
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
    title: 'Invalid request',
    description:
      'The path, the query string or a header is malformed, or the body arrived in too many small chunks.',
  },
  bad_json: {
    status: 400,
    title: 'Invalid JSON',
    description:
      'The body is missing, cannot be parsed, contains a duplicate member, is nested too deeply, or has a top-level member named `__proto__`.',
  },
  unauthenticated: {
    status: 401,
    title: 'Authentication failed',
    description:
      'Send only the API token as the value of the Authorization header, without a prefix. A token becomes invalid when it expires, or when the object that it is bound to is deleted.',
  },
  forbidden: {
    status: 403,
    title: 'Permission denied',
    description: 'The API token has access to the organization, but RBAC does not allow this operation.',
  },
  not_found: {
    status: 404,
    title: 'Not found',
    description:
      'The route, organization or object does not exist, or the API token does not have access to it.',
  },
  method_not_allowed: {
    status: 405,
    title: 'Method not allowed',
    description: 'The Allow header lists the supported methods.',
  },
  request_timeout: {
    status: 408,
    title: 'Request timeout',
    description: 'The request took too long to arrive. Send all headers and the body within 10 seconds.',
  },
  endpoint_disabled: {
    status: 409,
    title: 'Endpoint disabled',
    description: 'Enable the endpoint before you ping it or redeliver to it.',
  },
  idempotency_conflict: {
    status: 409,
    title: 'Idempotency-Key already used',
    description:
      'This Idempotency-Key has been used for a different request within the past 24 hours. Repeat that request unchanged, or use a new key.',
  },
  managed_elsewhere: {
    status: 409,
    title: 'Object managed elsewhere',
    description:
      "The spec is managed by Git, Helm or `kubectl apply`, or the secret comes from a Kubernetes Secret. Change or delete the object at its source. An endpoint's status can still be changed through the REST API.",
  },
  too_many_endpoints: {
    status: 409,
    title: 'Endpoint limit reached',
    description: 'The organization has the maximum number of endpoints. Delete one first.',
  },
  too_many_credentials: {
    status: 409,
    title: 'Registry credential limit reached',
    description: 'The organization has the maximum number of registry credentials. Delete one first.',
  },
  too_many_secrets: {
    status: 409,
    title: 'Signing secret limit reached',
    description:
      'The endpoint has the maximum number of active signing secrets. Wait until one expires, or set expireOld to true when you rotate the secret.',
  },
  secrets_settings_required: {
    status: 409,
    title: 'AWS account required',
    description:
      'The organization is not connected to an AWS account, so nothing was stored. Connect an account first (`PUT /secrets-settings`). Credentials of type ecr do not need one.',
  },
  cloud_account_not_ready: {
    status: 409,
    title: 'AWS account not ready',
    description:
      'The secret could not be stored in the AWS account. `detail` explains why. If the secrets settings are the cause, `condition` contains the `Ready` condition of the SecretsSettings.',
  },
  unreadable: {
    status: 409,
    title: 'Invalid stored object',
    description:
      'The stored object is not valid in this version of Davit. Fix it with kubectl, or delete it.',
  },
  cursor_expired: {
    status: 410,
    title: 'Cursor expired',
    description:
      'Start the list again from the beginning, without a cursor. If you were reading a stream, connect again without Last-Event-ID, then list events and deliveries.',
  },
  precondition_failed: {
    status: 412,
    title: 'Precondition failed',
    description:
      'The object has changed since you read it: its current ETag does not match If-Match. Read the object again, then decide whether to repeat the request.',
  },
  body_too_large: {
    status: 413,
    title: 'Body too large',
    description: 'The body must be at most 256 KiB, or 1 MiB for a batch of events.',
  },
  uri_too_long: {
    status: 414,
    title: 'URL too long',
    description: 'The URL must be at most 2,048 characters.',
  },
  unsupported_media_type: {
    status: 415,
    title: 'Unsupported media type',
    description:
      'Send the body as UTF-8 JSON, with the header Content-Type: application/json and no Content-Encoding header.',
  },
  invalid: {
    status: 422,
    title: 'Validation failed',
    description:
      '`errors` identifies each invalid value by a JSON pointer or a parameter name, and says what is allowed.',
  },
  headers_too_large: {
    status: 431,
    title: 'Headers too large',
    description: 'The headers must be at most 16 KiB in total.',
  },
  rate_limited: {
    status: 429,
    title: 'Too many requests',
    description: 'Retry after the number of seconds in the Retry-After header.',
  },
  internal: {
    status: 500,
    title: 'Internal error',
    description: 'Report the requestId to your cluster operator.',
  },
  overloaded: {
    status: 503,
    title: 'Service overloaded',
    description: 'The request had no effect. Retry after the number of seconds in the Retry-After header.',
  },
  intake_full: {
    status: 503,
    title: 'Publishing limit reached',
    description:
      'A publishing limit (number of unfinished deliveries, total payload size of unfinished deliveries, or write volume) has been reached. The event was not accepted. `detail` names the limit and, if known, the endpoint with the largest backlog.',
  },
  unavailable: {
    status: 503,
    title: 'Cluster unavailable',
    description:
      'The cluster did not respond, so the outcome is unknown. Repeat the request, with the same Idempotency-Key if you sent one.',
  },
  cloud_unavailable: {
    status: 503,
    title: 'AWS unavailable',
    description:
      'Davit could not complete a call to AWS. Most likely, nothing has changed. However, if AWS received the request and only the response was lost, the change may have been made. Retry after the number of seconds in the Retry-After header.',
  },
  not_acknowledged: {
    status: 503,
    title: 'Change not active yet',
    description:
      'The change is saved but has not taken effect everywhere yet. It will take effect automatically; no action is needed unless `detail` asks for it.',
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
const RETRY_LATER = 'Retry later. If the problem persists, contact your cluster operator.'

/** The response to anything that was thrown; only text meant for the client gets into it. */
export function problemOf(error: unknown): Problem {
  if (error instanceof Problem) return error
  return ofCluster(error) ?? ofCloud(error) ?? ofStored(error) ?? new Problem('internal')
}

/** The one place that decides what an error of the cluster means to a client. */
function ofCluster(error: unknown): Problem | undefined {
  if (error instanceof OverloadedError)
    return overloaded('Too many writes are waiting. The request had no effect.', BUSY_SECONDS, error)
  if (isApiError(error, 'NoSpace'))
    return overloaded(
      `The cluster's API storage (etcd) is full. The request had no effect. ${RETRY_LATER}`,
      FIX_SECONDS,
      error,
    )
  // Not a quota of the organization: creating an endpoint or a credential handles that one.
  if (isApiError(error, 'Quota'))
    return overloaded(`A cluster quota is blocking this request. ${RETRY_LATER}`, FIX_SECONDS, error)
  // Davit itself lacks a permission, or the API server has just started and has not loaded it yet.
  if (isApiError(error, 'Forbidden'))
    return overloaded(
      `Davit does not currently have permission in the cluster to perform this operation. The request had no effect. ${RETRY_LATER}`,
      BUSY_SECONDS,
      error,
    )
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
    const busy =
      'Too many secrets are waiting to be stored in this AWS account and region. Nothing was stored.'
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
  if (error instanceof UnreadableError) return new Problem('unreadable', { cause: error })
  if (!(error instanceof KeysDamagedError)) return undefined
  const detail =
    "The endpoint's signing secrets cannot be read. Ask your cluster operator to restore them, or to delete them so that Davit can create new ones."
  return new Problem('unreadable', { detail, cause: error })
}

/** An object that passed our rules and not those of the API server, say an admission policy. Other errors stay as they are. */
export function rejectedByCluster(error: unknown): unknown {
  if (!isApiError(error, 'Invalid', 'BadRequest', 'TooLarge')) return error
  return new Problem('invalid', { detail: `The cluster rejected the object: ${error.message}`, cause: error })
}

/** For `refuseWhileStale`. @param what plural */
export function stillLoading(what: string): string {
  return `the server is still loading ${what}`
}

/**
 * Refuses to decide on data that may have changed unseen.
 * @param behind why, as a clause for clients; undefined while everything is known
 * @throws Problem overloaded
 */
export function refuseWhileStale(behind: () => string | undefined): void {
  const why = behind()
  if (why === undefined) return
  throw overloaded(`${why.charAt(0).toUpperCase()}${why.slice(1)}. Retry the request.`, STALE_SECONDS)
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
        throw overloaded(
          `The delivery log is not accepting events right now. The request had no effect. ${RETRY_LATER}`,
          FIX_SECONDS,
          error,
        )
      }
    },
  }
}
