import type { ResourceType } from '../apis/meta.ts'

/**
 * What Davit needs of the Kubernetes API. Objects are plain JSON; whoever reads one parses it with the
 * schema of its kind. Names are checked by the adapter before they become part of a path.
 */

export type ObjectRef = { namespace?: string | undefined; name: string }

/** An object as the API server sent it, not yet parsed. */
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
  /** Objects per page; the adapter has a default. */
  limit?: number
}

export type Page = { items: RawObject[]; resourceVersion: string; continue?: string }

/** Reads are consistent: they show every write that was acknowledged before the call. */
export interface ResourceReader {
  /** @throws ApiError `NotFound` and the rest */
  get(type: ResourceType, ref: ObjectRef): Promise<RawObject>
  /** One page. @throws ApiError `Gone` when `from` has expired */
  list(type: ResourceType, query: ListQuery, from?: string): Promise<Page>
}

export type CreateOptions = {
  /** `metadata`: answer with the object's metadata alone, which saves sending and parsing a large one back. */
  answer?: 'metadata'
}

export type PatchOptions = CreateOptions & {
  /** Which subresource is patched; absent: the object. */
  subresource?: 'status' | 'scale'
  /** Everything is checked and answered as if it were written, and nothing is. */
  dryRun?: true
}

/** Precondition of a delete. */
export type DeletePrecondition = { uid?: string; resourceVersion?: string }

export type DeleteOptions = {
  /** What it owns goes as well; absent: as its kind has it, which for a Job is that its pods stay and run. */
  dependents?: 'Background'
}

export interface ResourceWriter {
  /** @throws ApiError `AlreadyExists`, `Forbidden`, `Invalid`, `Unavailable` (not known whether it was written) */
  create(type: ResourceType, object: RawObject, options?: CreateOptions): Promise<RawObject>
  /** Merge patch (RFC 7386). With `metadata.resourceVersion` in it, a newer object answers `Conflict`. */
  patch(type: ResourceType, ref: ObjectRef, patch: object, options?: PatchOptions): Promise<RawObject>
  /** @throws ApiError `NotFound`, `Conflict` (a precondition did not hold) */
  delete(
    type: ResourceType,
    ref: ObjectRef,
    precondition?: DeletePrecondition,
    options?: DeleteOptions,
  ): Promise<void>
}

export type WatchEvent =
  /** The object may lack `managedFields`. `bytes`: of it as JSON, with what is around it in the stream, where the adapter knows. */
  | { type: 'ADDED' | 'MODIFIED'; object: RawObject; bytes?: number }
  /** Its metadata for sure; of the rest, which was told before, whatever the adapter has read. */
  | { type: 'DELETED'; object: RawObject }
  /** Nothing happened up to this version. */
  | { type: 'BOOKMARK'; resourceVersion: string }

/** A watch; each element holds the events of one read from the socket. */
export interface WatchSource {
  /**
   * Events after `resourceVersion`. Ends when the server ends the stream, or nothing came for so long that it may be
   * dead.
   * @throws ApiError `Gone` (the version is too old: list again), `TooManyRequests`, `Unavailable`, ...
   * and `Unavailable` as well when a line cannot be parsed
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
 * NoSpace (the API server's store is full), Quota (a ResourceQuota said no), Terminating (the namespace is
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
  /** Of `Forbidden`: whoever asks has no right to it, as far as the server knows; one that has just started knows no rights yet. */
  readonly lacksRight: boolean

  constructor(
    kind: ApiErrorKind,
    message: string,
    details: { status?: number; retryAfterMs?: number; lacksRight?: boolean; cause?: unknown } = {},
  ) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause })
    this.kind = kind
    this.status = details.status ?? 0
    this.retryAfterMs = details.retryAfterMs
    this.lacksRight = details.lacksRight ?? false
  }
}

export function isApiError(error: unknown, ...kinds: ApiErrorKind[]): error is ApiError {
  return error instanceof ApiError && (kinds.length === 0 || kinds.includes(error.kind))
}

/** An object as it is now; undefined where there is none. @throws ApiError whatever else the API server says */
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

/** An object that the API server has stored and that this version cannot use. Nothing of it is in the message. */
export class UnreadableError extends Error {
  override readonly name = 'UnreadableError'
  /** `<namespace>/<name>` */
  readonly object: string

  constructor(kind: string, object: string) {
    super(`the ${kind} ${object} does not fit the rules of this version`)
    this.object = object
  }
}
