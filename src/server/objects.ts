import type { z } from 'zod'
import { managedBy, managersOfField, type SpecManager } from '../apis/annotations.ts'
import { DNS_LABEL, type ObjectMeta, objectMeta, type ResourceType } from '../apis/meta.ts'
import { isApiError, type RawObject, type ResourceReader, UnreadableError } from '../kube/client.ts'
import { etagOf, ifMatchHolds, isWeakened, listed } from '../lib/text.ts'
import { Problem } from './http/problems.ts'

/**
 * What endpoints, registry credentials and settings have in common over REST: they are read from the API server, so that a
 * change which another replica has just made is seen, and changed under If-Match and a check of who manages them.
 */

export type NamespacedRef = { namespace: string; name: string }

export function refOf({ namespace = '', name }: ObjectMeta): NamespacedRef {
  return { namespace, name }
}

/** The object that a REST id names. @throws Problem not_found for a text that is no such id */
export function refOfId(organization: string, id: string, prefix: string): NamespacedRef {
  const name = id.startsWith(prefix) ? id.slice(prefix.length) : ''
  if (!DNS_LABEL.test(name)) throw new Problem('not_found')
  return { namespace: organization, name }
}

/** Value of Idempotency-Key, if it was sent. */
export type Keyed = { idempotencyKey?: string | undefined }

/** Value of If-Match, if it was sent. */
export type Conditional = { ifMatch?: string | undefined }

/** A kind that REST reads. */
export type StoredKind<T> = { type: ResourceType; kind: string; schema: z.ZodType<T> }

/** A kind that REST shows. */
export type ResourceKind<T> = StoredKind<T> & {
  /** What its ETag stands for: all that a response shows of an object, apart from statistics, with which a change has nothing to do. */
  versionOf(object: T): unknown
}

/** @param raw all of the metadata, which `object` has only in part */
export type Stored<T> = { object: T; raw: RawObject }

/** @throws Problem not_found, also if it is being deleted; ApiError; UnreadableError */
export async function readStored<T extends { metadata: ObjectMeta }>(
  resources: Pick<ResourceReader, 'get'>,
  kind: StoredKind<T>,
  ref: NamespacedRef,
  learn: (object: T) => void,
): Promise<Stored<T>> {
  const raw = await readRaw(resources, kind.type, ref)
  const object = parseStored(kind, raw)
  learn(object)
  if (object.metadata.deletionTimestamp !== undefined) throw new Problem('not_found')
  return { object, raw }
}

/** The object as stored, valid or not, and even if it is being deleted. @throws Problem not_found; ApiError */
export async function readRaw(
  resources: Pick<ResourceReader, 'get'>,
  type: ResourceType,
  ref: NamespacedRef,
): Promise<RawObject> {
  try {
    return await resources.get(type, ref)
  } catch (error) {
    throw notFoundOr(error)
  }
}

/** The problem `not_found` for an object that is gone; any other error as it is. */
export function notFoundOr(error: unknown): unknown {
  return isApiError(error, 'NotFound') ? new Problem('not_found', { cause: error }) : error
}

/** @throws UnreadableError */
export function parseStored<T>({ kind, schema }: StoredKind<T>, raw: RawObject): T {
  const { data } = schema.safeParse(raw)
  if (data !== undefined) return data
  throw new UnreadableError(kind, `${raw.metadata.namespace}/${raw.metadata.name}`)
}

const WEAK =
  'If-Match contains a weak ETag, which never matches. Davit sends only strong ETags, but a proxy that compresses responses weakens them. Send the ETag without W/, or turn off compression for Davit in the proxy.'

/** The ETag of an object, quotes included. */
export function tagOf<T extends { metadata: ObjectMeta }>(kind: ResourceKind<T>, object: T): string {
  return etagOf(object.metadata, kind.versionOf(object))
}

/** @throws Problem precondition_failed */
export function checkIfMatch<T extends { metadata: ObjectMeta }>(
  kind: ResourceKind<T>,
  object: T,
  how: Conditional,
): void {
  checkTag(tagOf(kind, object), how)
}

/** The same for an object as stored, which may be invalid: then no response has shown its ETag. @throws Problem precondition_failed */
export function checkStoredIfMatch<T extends { metadata: ObjectMeta }>(
  kind: ResourceKind<T>,
  raw: RawObject,
  how: Conditional,
): void {
  const { data } = kind.schema.safeParse(raw)
  checkTag(data ? tagOf(kind, data) : etagOf(objectMeta.parse(raw.metadata)), how)
}

function checkTag(etag: string, { ifMatch }: Conditional): void {
  if (ifMatch === undefined || ifMatchHolds(ifMatch, etag)) return
  throw new Problem('precondition_failed', isWeakened(ifMatch, etag) ? { detail: WEAK } : {})
}

/**
 * Metadata of an object that may be deleted; its spec may be invalid. The next apply of a manager would create the object again, as another
 * one.
 * @param advice what the client can do instead, with a space before it @throws Problem not_found, precondition_failed, managed_elsewhere
 */
export function checkDeletable<T extends { metadata: ObjectMeta }>(
  kind: ResourceKind<T>,
  raw: RawObject,
  how: Conditional,
  advice = '',
): ObjectMeta {
  const metadata = objectMeta.parse(raw.metadata)
  if (metadata.deletionTimestamp !== undefined) throw new Problem('not_found')
  checkStoredIfMatch(kind, raw, how)
  const manager = managedBy(raw.metadata)
  if (manager === undefined) return metadata
  const detail = `The spec is managed by ${manager}, which may recreate the object. Delete it where it is defined instead.${advice}`
  throw new Problem('managed_elsewhere', { detail })
}

/**
 * Names the managers of the fields that the request would change.
 * @param changeable what can still be changed over REST, if anything
 */
export function managedProblem(
  managers: readonly SpecManager[],
  fields: readonly string[],
  changeable?: string,
): Problem {
  const all = listed(managers.map(({ name }) => name))
  const byManagers = Map.groupBy(fields, (field) => listed(managersOfField(managers, field)))
  const who = [...byManagers].map(([names, owned]) => {
    if (names === all) return `The spec is managed by ${all}.`
    return `${quoted(owned)} ${owned.length === 1 ? 'is' : 'are'} managed by ${names}.`
  })
  const rest = changeable === undefined ? '' : ` Through the REST API, you can change only ${changeable}.`
  const detail = `${who.join(' ')} Change ${quoted(fields)} at ${fields.length === 1 ? 'its' : 'their'} source instead.${rest}`
  return new Problem('managed_elsewhere', { detail })
}

function quoted(fields: readonly string[]): string {
  return listed(fields.map((field) => `\`${field}\``))
}

/** The ETag of an object that may be gone by now. */
export async function etagIfPresent<T extends { metadata: ObjectMeta }>(
  kind: ResourceKind<T>,
  read: () => Promise<Stored<T>>,
): Promise<{ etag?: string }> {
  try {
    return { etag: tagOf(kind, (await read()).object) }
  } catch (error) {
    if (error instanceof Problem) return {}
    throw error
  }
}

const MAX_TRIES = 10

/** Runs a read-decide-write cycle again if another writer changed or deleted the object in between. */
export async function retryOnConflict<T>(work: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await work()
    } catch (error) {
      if (!isApiError(error, 'Conflict', 'AlreadyExists', 'NotFound')) throw error
      if (tries === MAX_TRIES) throw new Problem('overloaded', { retryAfter: 1, cause: error })
    }
  }
}
