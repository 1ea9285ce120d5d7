import type { ResourceType } from '../../../src/apis/meta.ts'
import type {
  DeletePrecondition,
  ListQuery,
  ObjectRef,
  PatchOptions,
  RawObject,
  ResourceReader,
  ResourceWriter,
  WatchEvent,
  WatchSource,
} from '../../../src/kube/client.ts'
import type { Lifeline } from './lifeline.ts'

type Api = ResourceReader & ResourceWriter & WatchSource

/** The API server as seen by a process that may die. */
export class MortalApi implements ResourceReader, ResourceWriter, WatchSource {
  readonly #inner: Api
  readonly #life: Lifeline
  /** Called for a Secret that this process has deleted. */
  onSecretDeleted: (secret: RawObject) => void = () => undefined
  /** Number of writes. */
  writes = 0
  reads = 0

  constructor(inner: Api, life: Lifeline) {
    this.#inner = inner
    this.#life = life
  }

  get(type: ResourceType, ref: ObjectRef) {
    this.reads += 1
    return this.#life.call(`get ${type.plural}`, () => this.#inner.get(type, ref))
  }

  list(type: ResourceType, query: ListQuery, from?: string) {
    this.reads += 1
    return this.#life.call(`list ${type.plural}`, () => this.#inner.list(type, query, from))
  }

  create(type: ResourceType, object: RawObject) {
    this.writes += 1
    return this.#life.call(`create ${type.plural}`, () => this.#inner.create(type, object))
  }

  patch(type: ResourceType, ref: ObjectRef, patch: object, options?: PatchOptions) {
    this.writes += 1
    const what = options?.subresource === 'status' ? `${type.plural}/status` : type.plural
    return this.#life.call(`patch ${what}`, () => this.#inner.patch(type, ref, patch, options))
  }

  delete(type: ResourceType, ref: ObjectRef, precondition?: DeletePrecondition) {
    this.writes += 1
    return this.#life.call(`delete ${type.plural}`, async () => {
      const held = await this.#inner.get(type, ref)
      await this.#inner.delete(type, ref, precondition)
      if (type.plural === 'secrets') this.onSecretDeleted(held)
    })
  }

  async *watch(
    type: ResourceType,
    query: ListQuery,
    from: string,
    signal: AbortSignal,
  ): AsyncGenerator<WatchEvent[]> {
    for await (const events of this.#inner.watch(type, query, from, signal)) {
      if (this.#life.dead) await this.#life.silence()
      yield events
    }
  }
}
