import { MemoryStore } from './memory-store.ts'

type Call = 'get' | 'list' | 'create' | 'patch'

/** A store in memory with scripted actions before its calls. */
export class ScriptedStore extends MemoryStore {
  /** Number of the calls below. */
  calls = 0
  readonly #script: { call: Call; plural: string; before: () => unknown }[] = []

  /** Runs `before` once, before such a call for such an object; an exception of it is thrown by the call. */
  once(call: Call, plural: string, before: () => unknown): void {
    this.#script.push({ call, plural, before })
  }

  override async get(...args: Parameters<MemoryStore['get']>) {
    await this.#play('get', args[0].plural)
    return await super.get(...args)
  }

  override async list(...args: Parameters<MemoryStore['list']>) {
    await this.#play('list', args[0].plural)
    return await super.list(...args)
  }

  override async create(...args: Parameters<MemoryStore['create']>) {
    await this.#play('create', args[0].plural)
    return await super.create(...args)
  }

  override async patch(...args: Parameters<MemoryStore['patch']>) {
    await this.#play('patch', args[0].plural)
    return await super.patch(...args)
  }

  async #play(call: Call, plural: string): Promise<void> {
    this.calls += 1
    const at = this.#script.findIndex((line) => line.call === call && line.plural === plural)
    if (at >= 0) await this.#script.splice(at, 1)[0]?.before()
  }
}
