import type { ObjectMeta, ResourceType } from '../apis/meta.ts'
import { isApiError, type ResourceReader, type ResourceWriter } from './client.ts'
import type { MutationCache } from './mutation-cache.ts'
import { statusPatch } from './status.ts'

/** It is gone, or another one has its name. */
export class ObjectGoneError extends Error {
  override readonly name = 'ObjectGoneError'
}

type Written = { metadata: ObjectMeta; status?: object | undefined }

export type ObjectWriterOptions<T extends Written> = {
  resources: ResourceReader & ResourceWriter
  type: ResourceType
  decode(raw: unknown): T
  /** Learns what was read and written. */
  cache: MutationCache<T>
}

/**
 * Writes of objects of one kind by their controller, each on the version that was read.
 * All methods @throws ObjectGoneError, ApiError (`Conflict` included: read again)
 */
export class ObjectWriter<T extends Written> {
  readonly #options: ObjectWriterOptions<T>

  constructor(options: ObjectWriterOptions<T>) {
    this.#options = options
  }

  /** As it is now, whatever the watch has shown. */
  async read({ metadata }: T): Promise<T> {
    const { resources, type } = this.#options
    const { namespace, name, uid } = metadata
    return await this.#learn(uid, () => resources.get(type, { namespace, name }))
  }

  /** Nothing is written where nothing changed. */
  async updateStatus(object: T, desired: Partial<NonNullable<T['status']>>): Promise<T> {
    const status = statusPatch(object.status ?? {}, desired)
    return status ? await this.#patch(object, { status }, { subresource: 'status' }) : object
  }

  async updateFinalizers(object: T, finalizers: readonly string[]): Promise<T> {
    return await this.#patch(object, { metadata: { finalizers } }, {})
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
