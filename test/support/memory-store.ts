import type { ResourceType } from '../../src/apis/meta.ts'
import {
  ApiError,
  type DeletePrecondition,
  type ListQuery,
  type ObjectRef,
  type Page,
  type PatchOptions,
  type RawObject,
  type ResourceReader,
  type ResourceWriter,
} from '../../src/kube/client.ts'

type Fields = Record<string, unknown>

/** What the CRD gives a new object, by plural. */
const DEFAULT_STATUS: Partial<Record<string, Fields>> = { webhookdeliveries: { state: 'pending' } }

/**
 * Objects in memory with versions, UIDs and preconditions, for tests of code above the store with a stepped clock. It does not
 * validate schemas: rejections by the API server are tested on a real one.
 */
export class MemoryStore implements ResourceReader, ResourceWriter {
  readonly #objects = new Map<string, RawObject>()
  readonly #pages = new Map<string, { items: RawObject[]; version: number }>()
  readonly #now: () => number
  #version = 100

  /** @param now for creationTimestamps, milliseconds since 1970 */
  constructor(now: () => number) {
    this.#now = now
  }

  get version(): number {
    return this.#version
  }

  /** The current objects of a kind, by name. */
  all(type: ResourceType): RawObject[] {
    const prefix = `${type.plural}/`
    return [...this.#objects]
      .filter(([key]) => key.startsWith(prefix))
      .map(([, object]) => object)
      .sort((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1))
  }

  async get(type: ResourceType, ref: ObjectRef): Promise<RawObject> {
    return structuredClone(this.#held(type, ref))
  }

  async list(type: ResourceType, query: ListQuery, from?: string): Promise<Page> {
    const rest = from === undefined ? this.#snapshot(type, query) : this.#pages.get(from)
    if (!rest) throw new ApiError('Gone', 'the page has expired', { status: 410 })
    const limit = query.limit ?? 500
    const left = rest.items.slice(limit)
    const token = `${this.#pages.size}`
    if (left.length > 0) this.#pages.set(token, { items: left, version: rest.version })
    return {
      items: structuredClone(rest.items.slice(0, limit)),
      resourceVersion: String(rest.version),
      ...(left.length > 0 ? { continue: token } : {}),
    }
  }

  async create(type: ResourceType, object: RawObject): Promise<RawObject> {
    const key = keyOf(type, object.metadata)
    if (this.#objects.has(key)) throw new ApiError('AlreadyExists', `${key} already exists`, { status: 409 })
    const { status: _dropped, ...rest } = structuredClone(object)
    const version = this.#next()
    const metadata = {
      ...rest.metadata,
      uid: `uid-${version}`,
      resourceVersion: version,
      generation: 1,
      creationTimestamp: new Date(this.#now()).toISOString(),
    }
    const status = DEFAULT_STATUS[type.plural]
    const created = { ...rest, metadata, ...(status ? { status: { ...status } } : {}) }
    this.#objects.set(key, created)
    return structuredClone(created)
  }

  async patch(type: ResourceType, ref: ObjectRef, patch: object, options?: PatchOptions): Promise<RawObject> {
    const held = this.#held(type, ref)
    const { metadata = {}, ...fields } = structuredClone(patch) as Fields & { metadata?: Fields }
    const { resourceVersion, uid } = metadata
    if (resourceVersion !== undefined && resourceVersion !== held.metadata.resourceVersion)
      throw new ApiError('Conflict', `${ref.name} has been modified`, { status: 409 })
    if (uid !== undefined && uid !== held.metadata.uid)
      throw new ApiError('Invalid', `${ref.name}: metadata.uid: field is immutable`, { status: 422 })
    const change = options?.subresource === 'status' ? { status: fields.status } : { ...fields, metadata }
    if (options?.dryRun) return merge(structuredClone(held), change) as RawObject
    const patched = merge(held, { ...change, metadata: { ...metadata, resourceVersion: this.#next() } })
    this.#objects.set(keyOf(type, ref), patched as RawObject)
    return structuredClone(patched as RawObject)
  }

  async delete(type: ResourceType, ref: ObjectRef, precondition: DeletePrecondition = {}): Promise<void> {
    const { metadata } = this.#held(type, ref)
    const { uid = metadata.uid, resourceVersion = metadata.resourceVersion } = precondition
    if (uid !== metadata.uid || resourceVersion !== metadata.resourceVersion)
      throw new ApiError('Conflict', 'a precondition did not hold', { status: 409 })
    const version = this.#next()
    const { finalizers = [] } = metadata
    if (!Array.isArray(finalizers) || finalizers.length === 0) {
      this.#objects.delete(keyOf(type, ref))
      return
    }
    // A finalizer delays the deletion.
    const deletionTimestamp = new Date(this.#now()).toISOString()
    const going = merge(this.#held(type, ref), { metadata: { deletionTimestamp, resourceVersion: version } })
    this.#objects.set(keyOf(type, ref), going as RawObject)
  }

  #held(type: ResourceType, ref: ObjectRef): RawObject {
    const held = this.#objects.get(keyOf(type, ref))
    if (!held) throw new ApiError('NotFound', `${keyOf(type, ref)} not found`, { status: 404 })
    return held
  }

  #snapshot(
    type: ResourceType,
    { namespace, labelSelector }: ListQuery,
  ): { items: RawObject[]; version: number } {
    const items = this.all(type).filter(
      ({ metadata }) =>
        (namespace === undefined || metadata.namespace === namespace) && isSelected(metadata, labelSelector),
    )
    return { items, version: this.#version }
  }

  #next(): string {
    this.#version += 1
    return String(this.#version)
  }
}

/** Supports labels with a value, with one of several values, or absent. */
function isSelected({ labels = {} }: RawObject['metadata'], selector: string | undefined): boolean {
  if (selector === undefined) return true
  const held = labels as Record<string, string>
  return selector.split(/,(?![^(]*\))/).every((part) => {
    const [, of, values] = /^(\S+) in \(([^)]*)\)$/.exec(part) ?? []
    if (of !== undefined) return values?.split(',').includes(held[of] ?? '') === true
    const [name = '', value] = part.split('=')
    return value === undefined ? held[name] !== undefined : held[name] === value
  })
}

function keyOf(type: ResourceType, { namespace = '', name }: ObjectRef): string {
  return `${type.plural}/${namespace}/${name}`
}

/** RFC 7386. */
function merge(target: unknown, patch: unknown): unknown {
  if (typeof patch !== 'object' || patch === null || Array.isArray(patch)) return patch
  const merged: Fields =
    typeof target === 'object' && target !== null && !Array.isArray(target) ? { ...target } : {}
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete merged[name]
    else if (value !== undefined) merged[name] = merge(merged[name], value)
  }
  return merged
}
