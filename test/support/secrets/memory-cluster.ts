/**
 * An API server in memory with the life cycle of objects: generations, finalizers, deletion in two steps, namespaces that are
 * deleted with their content, and watches. It does not validate schemas.
 */
import type { ResourceType } from '../../../src/apis/meta.ts'
import {
  ApiError,
  type DeletePrecondition,
  type ListQuery,
  type ObjectRef,
  type Page,
  type PatchOptions,
  type RawObject,
  type WatchEvent,
  type WatchSource,
} from '../../../src/kube/client.ts'
import { sameJson } from '../../../src/kube/status.ts'
import { Changes } from '../changes.ts'
import { MemoryStore } from '../memory-store.ts'

type HistoryEntry = { plural: string; version: number; event: Exclude<WatchEvent, { type: 'BOOKMARK' }> }

/** More than a watch may lag behind. */
const MAX_HISTORY = 5000

export class MemoryCluster extends MemoryStore implements WatchSource {
  readonly #history: HistoryEntry[] = []
  #dropped = 0
  readonly #changes = new Changes()
  readonly #terminating = new Set<string>()
  readonly #time: () => number

  constructor(now: () => number) {
    super(now)
    this.#time = now
  }

  override async create(type: ResourceType, object: RawObject): Promise<RawObject> {
    const { namespace } = object.metadata
    if (namespace !== undefined && this.#terminating.has(namespace))
      throw new ApiError('Terminating', `${namespace} is being terminated`, { status: 403 })
    const created = await super.create(type, object)
    this.#tell(type, 'ADDED', created)
    return created
  }

  override async patch(
    type: ResourceType,
    ref: ObjectRef,
    patch: object,
    options?: PatchOptions,
  ): Promise<RawObject> {
    const before = await this.get(type, ref)
    refuseNewFinalizers(before, patch)
    const written = await super.patch(type, ref, patch, options)
    if (options?.dryRun) return written
    const isOther = options?.subresource !== 'status' && !sameJson(before.spec, written.spec)
    const { generation } = written.metadata
    const patched = isOther
      ? await super.patch(type, ref, { metadata: { generation: Number(generation) + 1 } })
      : written
    if (isDeleting(patched) && !hasFinalizers(patched)) await this.#remove(type, ref)
    else this.#tell(type, 'MODIFIED', patched)
    return patched
  }

  override async delete(
    type: ResourceType,
    ref: ObjectRef,
    precondition: DeletePrecondition = {},
  ): Promise<void> {
    const held = await this.get(type, ref)
    if (!hasFinalizers(held)) return await this.#remove(type, ref, precondition)
    const { uid, resourceVersion } = held.metadata
    const isMet = (precondition.uid ?? uid) === uid
    if (!isMet || (precondition.resourceVersion ?? resourceVersion) !== resourceVersion)
      throw new ApiError('Conflict', 'a precondition did not hold', { status: 409 })
    if (isDeleting(held)) return
    const deletionTimestamp = new Date(this.#time()).toISOString()
    this.#tell(type, 'MODIFIED', await super.patch(type, ref, { metadata: { deletionTimestamp } }))
  }

  /** Deletes a namespace like the namespace controller: all content at once, and no new objects. */
  async terminate(namespace: string, types: readonly ResourceType[]): Promise<void> {
    this.#terminating.add(namespace)
    for (const type of types) {
      for (const { metadata } of this.all(type))
        if (metadata.namespace === namespace) await this.delete(type, { namespace, name: metadata.name })
    }
  }

  override async list(type: ResourceType, query: ListQuery, from?: string): Promise<Page> {
    const page = await super.list(type, query, from)
    return { ...page, items: page.items.filter((object) => isSelected(object, query)) }
  }

  async *watch(
    type: ResourceType,
    query: ListQuery,
    from: string,
    signal: AbortSignal,
  ): AsyncGenerator<WatchEvent[]> {
    let at = this.#history.findIndex(({ version }) => version > Number(from)) + this.#dropped
    if (at < this.#dropped) at = this.#history.length + this.#dropped
    const wake = () => this.#changes.notify()
    signal.addEventListener('abort', wake)
    try {
      for (;;) {
        await this.#changes.until(() => signal.aborted || at - this.#dropped < this.#history.length)
        if (signal.aborted) return
        if (at < this.#dropped) throw new ApiError('Gone', 'too old', { status: 410 })
        const entry = this.#history[at - this.#dropped]
        at += 1
        if (entry?.plural === type.plural && isSelected(entry.event.object, query))
          yield [structuredClone(entry.event)]
      }
    } finally {
      signal.removeEventListener('abort', wake)
    }
  }

  async #remove(type: ResourceType, ref: ObjectRef, precondition: DeletePrecondition = {}): Promise<void> {
    const last = await this.get(type, ref)
    await super.delete(type, ref, precondition)
    const metadata = { ...last.metadata, resourceVersion: String(this.version) }
    this.#tell(type, 'DELETED', { ...last, metadata })
  }

  #tell({ plural }: ResourceType, type: HistoryEntry['event']['type'], object: RawObject): void {
    this.#history.push({ plural, version: this.version, event: { type, object: structuredClone(object) } })
    if (this.#history.length > MAX_HISTORY) {
      this.#history.shift()
      this.#dropped += 1
    }
    this.#changes.notify()
  }
}

function isDeleting({ metadata }: RawObject): boolean {
  return metadata.deletionTimestamp !== undefined
}

function hasFinalizers({ metadata }: RawObject): boolean {
  return Array.isArray(metadata.finalizers) && metadata.finalizers.length > 0
}

function refuseNewFinalizers(held: RawObject, patch: { metadata?: { finalizers?: unknown } }): void {
  const had = (held.metadata.finalizers ?? []) as string[]
  const wanted = (patch.metadata?.finalizers ?? []) as string[]
  if (isDeleting(held) && wanted.some((name) => !had.includes(name)))
    throw new ApiError('Invalid', 'no new finalizers can be added while it is being deleted', { status: 422 })
}

/** Supports only the selector `type=`, with which input Secrets are watched. */
function isSelected(object: RawObject, { namespace, fieldSelector }: ListQuery): boolean {
  if (namespace !== undefined && object.metadata.namespace !== namespace) return false
  return fieldSelector === undefined || fieldSelector === `type=${object.type}`
}
