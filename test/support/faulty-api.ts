import type { ResourceType } from '../../src/apis/meta.ts'
import {
  ApiError,
  type CreateOptions,
  type DeleteOptions,
  type DeletePrecondition,
  type ListQuery,
  type ObjectRef,
  type Page,
  type PatchOptions,
  type RawObject,
  type ResourceReader,
  type ResourceWriter,
  type WatchEvent,
  type WatchSource,
} from '../../src/kube/client.ts'

export type ApiCall = {
  verb: 'get' | 'list' | 'create' | 'patch' | 'delete'
  plural: string
  /** Absent in a list. */
  name?: string
  /** The object of a create, the patch of a patch. */
  body?: object
}

/**
 * `before`: it fails without effect. `after`: it has its effect, and the answer is lost ("ExecuteAndTimeout"). `hold`: it waits
 * for the promise before it has its effect. `dies before`, `dies after`: the process ends there, as far as the API can tell:
 * neither this call nor any later one is answered.
 */
export type Fault =
  | { before: Error }
  | { after: Error }
  | { hold: Promise<void> }
  | 'dies before'
  | 'dies after'

type Rule = { matches: (call: ApiCall) => boolean; fault: Fault; left: number }

type Inner = ResourceReader & ResourceWriter & Partial<WatchSource>

/** An API, real or in memory, with scripted failures. */
export class FaultyApi implements ResourceReader, ResourceWriter, WatchSource {
  /** All calls, in order. */
  readonly calls: ApiCall[] = []
  /** Resolves when a rule has ended the process. */
  readonly died: Promise<void>
  readonly #inner: Inner
  readonly #rules: Rule[] = []
  readonly #buried = new AbortController()
  #die: () => void = () => undefined
  #dead = false

  constructor(inner: Inner) {
    this.#inner = inner
    this.died = new Promise((resolve) => {
      this.#die = resolve
    })
  }

  get dead(): boolean {
    return this.#dead
  }

  /** Makes the next `times` matching calls fail this way. @returns a function that ends the rule */
  fail(matches: (call: ApiCall) => boolean, fault: Fault, times = 1): () => void {
    const rule = { matches, fault, left: times }
    this.#rules.push(rule)
    return () => {
      rule.left = 0
    }
  }

  /** Stops answering calls. */
  die(): void {
    this.#dead = true
    this.#die()
  }

  /** Fails the calls that wait for a dead process, so that they can be cleaned up. */
  bury(): void {
    this.die()
    this.#buried.abort()
  }

  get(type: ResourceType, ref: ObjectRef): Promise<RawObject> {
    const { plural } = type
    return this.#call({ verb: 'get', plural, name: ref.name }, () => this.#inner.get(type, ref))
  }

  list(type: ResourceType, query: ListQuery, from?: string): Promise<Page> {
    return this.#call({ verb: 'list', plural: type.plural }, () => this.#inner.list(type, query, from))
  }

  create(type: ResourceType, object: RawObject, options?: CreateOptions): Promise<RawObject> {
    const { name } = object.metadata
    const call: ApiCall = { verb: 'create', plural: type.plural, name, body: object }
    return this.#call(call, () => this.#inner.create(type, object, options))
  }

  patch(type: ResourceType, ref: ObjectRef, patch: object, options?: PatchOptions): Promise<RawObject> {
    const call: ApiCall = { verb: 'patch', plural: type.plural, name: ref.name, body: patch }
    return this.#call(call, () => this.#inner.patch(type, ref, patch, options))
  }

  delete(
    type: ResourceType,
    ref: ObjectRef,
    precondition?: DeletePrecondition,
    options?: DeleteOptions,
  ): Promise<void> {
    const call: ApiCall = { verb: 'delete', plural: type.plural, name: ref.name }
    return this.#call(call, () => this.#inner.delete(type, ref, precondition, options))
  }

  async *watch(
    type: ResourceType,
    query: ListQuery,
    resourceVersion: string,
    signal: AbortSignal,
  ): AsyncGenerator<WatchEvent[]> {
    const source = this.#inner as Inner & WatchSource
    for await (const events of source.watch(type, query, resourceVersion, signal)) {
      if (this.#dead) await this.#silence()
      yield events
    }
  }

  async #call<T>(call: ApiCall, run: () => Promise<T>): Promise<T> {
    if (this.#dead) return await this.#silence()
    this.calls.push(call)
    const rule = this.#rules.find(({ matches, left }) => left > 0 && matches(call))
    if (!rule) return await this.#answered(run)
    rule.left -= 1
    const { fault } = rule
    if (fault === 'dies before') return await this.#end()
    if (fault === 'dies after') {
      await run()
      return await this.#end()
    }
    if ('before' in fault) throw fault.before
    if ('hold' in fault) {
      await fault.hold
      return await this.#answered(run)
    }
    await run()
    throw fault.after
  }

  /** The process may have died during the call. */
  async #answered<T>(run: () => Promise<T>): Promise<T> {
    const [result] = await Promise.allSettled([run()])
    if (this.#dead) return await this.#silence()
    if (result.status === 'rejected') throw result.reason
    return result.value
  }

  #end(): Promise<never> {
    this.die()
    return this.#silence()
  }

  #silence(): Promise<never> {
    return new Promise((_, reject) => {
      const over = () => reject(new ApiError('Unavailable', 'the process has ended'))
      if (this.#buried.signal.aborted) over()
      else this.#buried.signal.addEventListener('abort', over, { once: true })
    })
  }
}

/** Matches calls by verb, kind and, if given, a check of the body. */
export function calling(
  verb: ApiCall['verb'],
  type: ResourceType,
  looksLike: (body: object) => boolean = () => true,
): (call: ApiCall) => boolean {
  return (call) => call.verb === verb && call.plural === type.plural && looksLike(call.body ?? {})
}
