import type { ResourceType } from '../apis/meta.ts'

/**
 * The Kubernetes API as Davit uses it, and its errors. Objects are plain JSON; readers parse them with the schema of
 * the kind. Names are checked before they become part of a path.
 */

export type ObjectRef = { namespace?: string | undefined; name: string }

/** An object as sent by the API server, not parsed yet. */
export type RawObject = {
  apiVersion?: string
  kind?: string
  metadata: {
    name: string
    namespace?: string | undefined
    uid?: string | undefined
    resourceVersion?: string | undefined
    [field: string]: unknown
  }
  [field: string]: unknown
}

export type ListQuery = {
  /** Absent: all namespaces. */
  namespace?: string
  labelSelector?: string
  fieldSelector?: string
  /** Objects per page; the client has a default. */
  limit?: number | undefined
}

export type Page = { items: RawObject[]; resourceVersion: string; continue?: string }

/** Reads are consistent: they include every write that was acknowledged before the call. */
export interface ResourceReader {
  /** @throws ApiError `NotFound` and the rest */
  get(type: ResourceType, ref: ObjectRef): Promise<RawObject>
  /** One page. @throws ApiError `Gone` when `from` has expired */
  list(type: ResourceType, query: ListQuery, from?: string): Promise<Page>
}

export type CreateOptions = {
  /** `metadata`: return only the metadata, which saves sending and parsing a large object. */
  answer?: 'metadata'
}

export type PatchOptions = CreateOptions & {
  /** Absent: the object itself. */
  subresource?: 'status' | 'scale'
  /** Validated and answered like a write, but not stored. */
  dryRun?: true
}

export type DeletePrecondition = { uid?: string; resourceVersion?: string }

export type DeleteOptions = {
  /** `Background` deletes dependents too. Absent: the default of the kind, which for a Job leaves its pods running. */
  dependents?: 'Background'
}

export interface ResourceWriter {
  /** @throws ApiError `AlreadyExists`, `Forbidden`, `Invalid`, `Unavailable` (the outcome is unknown) */
  create(type: ResourceType, object: RawObject, options?: CreateOptions): Promise<RawObject>
  /** Merge patch (RFC 7386). With `metadata.resourceVersion`, fails with `Conflict` if the object is newer. */
  patch(type: ResourceType, ref: ObjectRef, patch: object, options?: PatchOptions): Promise<RawObject>
  /** @throws ApiError `NotFound`, `Conflict` (a precondition failed) */
  delete(
    type: ResourceType,
    ref: ObjectRef,
    precondition?: DeletePrecondition,
    options?: DeleteOptions,
  ): Promise<void>
}

export type WatchEvent =
  /** The object may lack `managedFields`. `bytes`: length of the line in the stream, if known. */
  | { type: 'ADDED' | 'MODIFIED'; object: RawObject; bytes?: number }
  /** Only the metadata is certain; the rest may be missing, as it was delivered before. */
  | { type: 'DELETED'; object: RawObject }
  /** All events up to this version were sent. */
  | { type: 'BOOKMARK'; resourceVersion: string }

/** Each element of a watch has the events of one read from the socket. */
export interface WatchSource {
  /**
   * Events after `resourceVersion`. Ends when the server ends the stream, or after a silence in which it may be
   * dead.
   * @throws ApiError `Gone` (the version is too old: list again), `TooManyRequests`, `Unavailable` (also for a line
   * that cannot be parsed), ...
   */
  watch(
    type: ResourceType,
    query: ListQuery,
    resourceVersion: string,
    signal: AbortSignal,
  ): AsyncIterable<WatchEvent[]>
}

/**
 * NotFound, AlreadyExists, Conflict, Gone, Forbidden, Unauthorized, Invalid, TooLarge, TooManyRequests,
 * NoSpace (the API server's store is full), Quota (a ResourceQuota denied it), Terminating (the namespace is
 * being deleted), BadRequest (any other 4xx), Unavailable (5xx, connection failed, deadline passed: a write
 * may have happened).
 */
export type ApiErrorKind =
  | 'NotFound'
  | 'AlreadyExists'
  | 'Conflict'
  | 'Gone'
  | 'Forbidden'
  | 'Unauthorized'
  | 'Invalid'
  | 'TooLarge'
  | 'TooManyRequests'
  | 'NoSpace'
  | 'Quota'
  | 'Terminating'
  | 'BadRequest'
  | 'Unavailable'

/** The one error of these ports. The message is the API server's, bounded. */
export class ApiError extends Error {
  override readonly name = 'ApiError'
  readonly kind: ApiErrorKind
  /** HTTP status, 0 where no response came. */
  readonly status: number
  /** What the server asked to wait, in milliseconds. */
  readonly retryAfterMs: number | undefined
  /**
   * For `Forbidden`: the caller lacks the right as far as the server knows; one that has just started knows no roles
   * yet.
   */
  readonly lacksRight: boolean
  /** A ValidatingAdmissionPolicy denied the request, perhaps with parameters that it did not know to be outdated. */
  readonly isByPolicy: boolean

  constructor(
    kind: ApiErrorKind,
    message: string,
    details: {
      status?: number
      retryAfterMs?: number | undefined
      lacksRight?: boolean
      isByPolicy?: boolean
      cause?: unknown
    } = {},
  ) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause })
    this.kind = kind
    this.status = details.status ?? 0
    this.retryAfterMs = details.retryAfterMs
    this.lacksRight = details.lacksRight ?? false
    this.isByPolicy = details.isByPolicy ?? false
  }
}

export function isApiError(error: unknown, ...kinds: ApiErrorKind[]): error is ApiError {
  return error instanceof ApiError && (kinds.length === 0 || kinds.includes(error.kind))
}

/** The object, or undefined if there is none. @throws ApiError for other errors */
export async function findObject(
  resources: Pick<ResourceReader, 'get'>,
  type: ResourceType,
  ref: ObjectRef,
): Promise<RawObject | undefined> {
  try {
    return await resources.get(type, ref)
  } catch (error) {
    if (isApiError(error, 'NotFound')) return undefined
    throw error
  }
}

/** A stored object that this version cannot use. The message has nothing of its content. */
export class UnreadableError extends Error {
  override readonly name = 'UnreadableError'
  /** `<namespace>/<name>` */
  readonly object: string

  constructor(kind: string, object: string) {
    super(`the ${kind} ${object} is not valid in this version of Davit`)
    this.object = object
  }
}

/** The parts of a `Status` that tell errors apart. */
type Status = {
  code?: unknown
  reason?: unknown
  message?: unknown
  details?: { retryAfterSeconds?: unknown; causes?: unknown } | null
}

const MAX_MESSAGE = 1_000
const MAX_RETRY_AFTER_MS = 10 * 60_000

/** A message about the caller, not about the object. */
const LACKS_RIGHT = /\bUser "[^"]*" cannot \w+ resource\b/

const DENIED_BY_POLICY = /\bValidatingAdmissionPolicy '[^']*' with binding '[^']*' denied request\b/

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

/** The error of a response that is not 2xx. @param retryAfter the header */
export function apiErrorFromResponse(code: number, body: Buffer, retryAfter?: string): ApiError {
  return apiErrorFromStatus(parseStatus(body), { code, retryAfter, from: `the API server returned ${code}` })
}

/** The error in an ERROR event of a watch. */
export function apiErrorFromEvent(object: unknown): ApiError {
  const status = isObject(object) ? (object as Status) : {}
  const code = typeof status.code === 'number' ? status.code : 500
  const error = apiErrorFromStatus(status, { code, from: 'the watch failed' })
  // The response was 200: the error is in the stream, and may come again from the same version.
  return new ApiError(error.kind, error.message, { retryAfterMs: error.retryAfterMs, status: 200 })
}

function apiErrorFromStatus(
  status: Status,
  response: { code: number; retryAfter?: string | undefined; from: string },
): ApiError {
  const message = typeof status.message === 'string' ? status.message : response.from
  const kind = errorKind(status, response.code, message)
  return new ApiError(kind, message.slice(0, MAX_MESSAGE), {
    status: response.code,
    lacksRight: kind === 'Forbidden' && LACKS_RIGHT.test(message),
    isByPolicy: DENIED_BY_POLICY.test(message),
    retryAfterMs: waitOf(status, response.retryAfter),
  })
}

function errorKind(status: Status, code: number, message: string): ApiErrorKind {
  const causes = causesOf(status)
  if (code === 409 && status.reason === 'AlreadyExists') return 'AlreadyExists'
  if (code === 403) return forbiddenKind(causes, message)
  // After a restore of etcd the version can lie in the future: only a new list helps.
  if (causes.includes('ResourceVersionTooLarge')) return 'Gone'
  if (code >= 500) return storeKind(message)
  return BY_CODE[code] ?? 'BadRequest'
}

/** None of them has a reason: one has a cause, the others only a message. */
function forbiddenKind(causes: readonly unknown[], message: string): ApiErrorKind {
  if (causes.includes('NamespaceTerminating')) return 'Terminating'
  if (/exceeded quota: |status unknown for quota: /.test(message)) return 'Quota'
  // An admission webhook rejects the object, with whatever status; the default is 403.
  return /^admission webhook "[^"]*" denied the request/.test(message) ? 'Invalid' : 'Forbidden'
}

/** Errors of etcd arrive as a 500 with their text. */
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
    // Some errors are plain text, such as those of a proxy in front.
    const text = body.toString('utf8', 0, MAX_MESSAGE).trim()
    return text === '' ? {} : { message: text }
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}
