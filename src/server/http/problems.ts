/**
 * What a request is refused with (RFC 9457). The codes are stable: clients branch on them, `docs/errors.md` and
 * the OpenAPI document list them.
 */

import type { RefusedCondition } from './refused-error.ts'

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
