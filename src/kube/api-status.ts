import { ApiError, type ApiErrorKind } from './client.ts'

/** The parts of a `Status` object that tell errors apart. */
type Status = {
  code?: unknown
  reason?: unknown
  message?: unknown
  details?: { retryAfterSeconds?: unknown; causes?: unknown } | null
}

const MAX_MESSAGE = 1_000
const MAX_RETRY_AFTER_MS = 10 * 60_000

/** What is said of the caller, not of the object that it brings. */
const LACKS_RIGHT = /\bUser "[^"]*" cannot \w+ resource\b/

const BY_CODE: Record<number, ApiErrorKind> = {
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'NotFound',
  409: 'Conflict',
  410: 'Gone',
  413: 'TooLarge',
  422: 'Invalid',
  429: 'TooManyRequests',
}

/** The error in a response that is not 2xx. @param retryAfter the header, where there is one */
export function apiErrorFromResponse(code: number, body: Buffer, retryAfter?: string): ApiError {
  return apiErrorFromStatus(parseStatus(body), { code, retryAfter, from: `the API server answered ${code}` })
}

/** The error in the object of a watch's ERROR event. */
export function apiErrorFromEvent(object: unknown): ApiError {
  const status = isObject(object) ? (object as Status) : {}
  const code = typeof status.code === 'number' ? status.code : 500
  const error = apiErrorFromStatus(status, { code, from: 'the watch ended with an error' })
  // The stream itself was answered with 200: what is wrong is in it, and may come again from the same version.
  return new ApiError(error.kind, error.message, { ...retryOf(error), status: 200 })
}

function retryOf(error: ApiError): { retryAfterMs?: number } {
  return error.retryAfterMs === undefined ? {} : { retryAfterMs: error.retryAfterMs }
}

function apiErrorFromStatus(
  status: Status,
  response: { code: number; retryAfter?: string | undefined; from: string },
): ApiError {
  const message = typeof status.message === 'string' ? status.message : response.from
  const retryAfterMs = waitOf(status, response.retryAfter)
  const kind = kindOf(status, response.code, message)
  return new ApiError(kind, message.slice(0, MAX_MESSAGE), {
    status: response.code,
    ...(kind === 'Forbidden' && LACKS_RIGHT.test(message) ? { lacksRight: true } : {}),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  })
}

function kindOf(status: Status, code: number, message: string): ApiErrorKind {
  const causes = causesOf(status)
  if (code === 409 && status.reason === 'AlreadyExists') return 'AlreadyExists'
  if (code === 403) return forbiddenKind(causes, message)
  // After a restore of etcd from a backup a version can lie in the future: only a new list helps.
  if (causes.includes('ResourceVersionTooLarge')) return 'Gone'
  if (code >= 500) return storeKind(message)
  return BY_CODE[code] ?? 'BadRequest'
}

/** The API server has a reason of its own for none of them: one is a cause, the others are only a text. */
function forbiddenKind(causes: readonly unknown[], message: string): ApiErrorKind {
  if (causes.includes('NamespaceTerminating')) return 'Terminating'
  if (/exceeded quota: |status unknown for quota: /.test(message)) return 'Quota'
  // What an admission webhook refuses is the object, whatever status it gives: 403 where it says none.
  return /^admission webhook "[^"]*" denied the request/.test(message) ? 'Invalid' : 'Forbidden'
}

/** What etcd says comes through as a 500 with its text. */
function storeKind(message: string): ApiErrorKind {
  if (message.includes('database space exceeded')) return 'NoSpace'
  if (
    message.includes('request is too large') ||
    message.includes('trying to send message larger than max')
  ) {
    return 'TooLarge'
  }
  return 'Unavailable'
}

function causesOf(status: Status): unknown[] {
  const causes = status.details?.causes
  return Array.isArray(causes) ? causes.map((cause) => (isObject(cause) ? cause.reason : undefined)) : []
}

function waitOf(status: Status, header: string | undefined): number | undefined {
  const seconds = header === undefined ? status.details?.retryAfterSeconds : Number(header)
  if (typeof seconds !== 'number' || !(seconds > 0)) return undefined
  return Math.min(seconds * 1000, MAX_RETRY_AFTER_MS)
}

function parseStatus(body: Buffer): Status {
  try {
    const parsed: unknown = JSON.parse(body.toString('utf8'))
    return isObject(parsed) ? (parsed as Status) : {}
  } catch {
    // Some errors are plain text, such as those of the proxy before the API server.
    const text = body.toString('utf8', 0, MAX_MESSAGE).trim()
    return text === '' ? {} : { message: text }
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}
