import type { ObjectMeta, ResourceType } from '../apis/meta.ts'
import { isApiError, type ResourceReader, type ResourceWriter } from './client.ts'
import { statusPatch } from './status.ts'

/**
 * Objects of one kind by "namespace/name", as seen by the watch or returned by our own writes, whichever is newer;
 * and the writer that feeds those writes back.
 */

type Entry<T> = { object: T /** The last version from the watch. */; watched: number }
type Listener<T> = (object: T, before: T | undefined) => void

/**
 * Only the watch adds and removes objects: the response to a write may arrive after the watch has shown that the
 * object was deleted or replaced.
 */
export class MutationCache<T extends { metadata: ObjectMeta }> {
  readonly #entries = new Map<string, Entry<T>>()
  readonly #names = new Map<string, Set<string>>()
  readonly #listeners: Listener<T>[] = []
  readonly #observers: ((object: T) => void)[] = []

  /** Called for everything new, including the controller's own writes: for other users of the objects. */
  observe(observer: (object: T) => void): void {
    this.#observers.push(observer)
  }

  /** Called for every object that was added, changed or removed; `before` of a removed one is itself. */
  listen(listener: Listener<T>): void {
    this.#listeners.push(listener)
  }

  get size(): number {
    return this.#entries.size
  }

  get(namespace: string, name: string): T | undefined {
    return this.#entries.get(`${namespace}/${name}`)?.object
  }

  *all(): IterableIterator<T> {
    for (const { object } of this.#entries.values()) yield object
  }

  in(namespace: string): T[] {
    return [...(this.#names.get(namespace) ?? [])].flatMap((name) => this.get(namespace, name) ?? [])
  }

  /** From the watch. */
  apply(object: T): void {
    const held = this.#entryOf(object)
    const watched = versionOf(object)
    if (held && held.object.metadata.uid === object.metadata.uid) {
      // Behind our own write. It can be behind itself only if the store was restored; then everything is news.
      const isBehind = watched <= versionOf(held.object) && watched >= held.watched
      held.watched = watched
      if (isBehind) return
    }
    const { namespace = '', name } = object.metadata
    this.#entries.set(`${namespace}/${name}`, { object, watched })
    const names = this.#names.get(namespace) ?? new Set()
    this.#names.set(namespace, names.add(name))
    this.#notifyListeners(object, held?.object)
  }

  /** Takes the result of our own write or read. Only observers are called. */
  learn(object: T): void {
    if (this.#learn(object)) this.#notifyObservers(object)
  }

  /** The same, and listeners are called at once. */
  announce(object: T): void {
    const before = this.#learn(object)
    if (before) this.#notifyListeners(object, before)
  }

  /** From the watch. */
  remove(object: T): void {
    const held = this.#entryOf(object)?.object
    if (held?.metadata.uid !== object.metadata.uid) return
    const { namespace = '', name } = object.metadata
    this.#entries.delete(`${namespace}/${name}`)
    const names = this.#names.get(namespace)
    names?.delete(name)
    if (names?.size === 0) this.#names.delete(namespace)
    this.#notifyListeners(held, held)
  }

  /** @returns the object before, or undefined if this is not newer */
  #learn(object: T): T | undefined {
    const held = this.#entryOf(object)
    if (!held || held.object.metadata.uid !== object.metadata.uid) return undefined
    const before = held.object
    if (versionOf(object) <= versionOf(before)) return undefined
    held.object = object
    return before
  }

  #entryOf({ metadata: { namespace = '', name } }: T): Entry<T> | undefined {
    return this.#entries.get(`${namespace}/${name}`)
  }

  #notifyListeners(object: T, before: T | undefined): void {
    for (const listener of this.#listeners) listener(object, before)
    this.#notifyObservers(object)
  }

  #notifyObservers(object: T): void {
    for (const observer of this.#observers) observer(object)
  }
}

function versionOf({ metadata }: { metadata: ObjectMeta }): number {
  return Number(metadata.resourceVersion)
}

/** The object was deleted, or replaced by another of the same name. */
export class ObjectGoneError extends Error {
  override readonly name = 'ObjectGoneError'
}

type Written = { metadata: ObjectMeta; status?: object | undefined }

export type ObjectWriterOptions<T extends Written> = {
  resources: ResourceReader & ResourceWriter
  type: ResourceType
  decode(raw: unknown): T
  cache: Pick<MutationCache<T>, 'learn'>
}

/**
 * Writes a controller's objects, each on the version that was read.
 * All methods @throws ObjectGoneError, ApiError (including `Conflict`: read again)
 */
export class ObjectWriter<T extends Written> {
  readonly #options: ObjectWriterOptions<T>

  constructor(options: ObjectWriterOptions<T>) {
    this.#options = options
  }

  /** The live object, whatever the watch has shown. */
  async read({ metadata }: T): Promise<T> {
    const { resources, type } = this.#options
    const { namespace, name, uid } = metadata
    return await this.#learn(uid, () => resources.get(type, { namespace, name }))
  }

  /** Writes only what changed. */
  async updateStatus(object: T, desired: Partial<NonNullable<T['status']>>): Promise<T> {
    const status = statusPatch(object.status ?? {}, desired)
    return status ? await this.#patch(object, { status }, { subresource: 'status' }) : object
  }

  async updateFinalizers(object: T, finalizers: readonly string[]): Promise<T> {
    return await this.#patch(object, { metadata: { finalizers } }, {})
  }

  async addFinalizer(object: T, finalizer: string): Promise<T> {
    return await this.updateFinalizers(object, [...(object.metadata.finalizers ?? []), finalizer])
  }

  async removeFinalizer(object: T, finalizer: string): Promise<T> {
    const finalizers = (object.metadata.finalizers ?? []).filter((name) => name !== finalizer)
    return await this.updateFinalizers(object, finalizers)
  }

  async #patch(
    { metadata: { namespace, name, uid, resourceVersion } }: T,
    patch: { metadata?: object; status?: object },
    how: { subresource?: 'status' },
  ): Promise<T> {
    const { resources, type } = this.#options
    const guarded = { ...patch, metadata: { ...patch.metadata, resourceVersion } }
    return await this.#learn(uid, () => resources.patch(type, { namespace, name }, guarded, how))
  }

  async #learn(uid: string, call: () => Promise<unknown>): Promise<T> {
    const { decode, cache } = this.#options
    try {
      const object = decode(await call())
      if (object.metadata.uid !== uid) throw new ObjectGoneError()
      cache.learn(object)
      return object
    } catch (error) {
      if (isApiError(error, 'NotFound')) throw new ObjectGoneError()
      throw error
    }
  }
}
