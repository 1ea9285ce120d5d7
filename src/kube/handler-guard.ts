import type { Logger } from '../lib/ports-log.ts'

/** Calls handlers: what they throw is logged and counted, and keeps nothing from going on. */
export class HandlerGuard {
  readonly #resource: string
  readonly #log: Logger
  #errors = 0

  constructor(resource: string, log: Logger) {
    this.#resource = resource
    this.#log = log
  }

  get errors(): number {
    return this.#errors
  }

  run(key: string, call: () => unknown): void {
    try {
      const result = call()
      if (result instanceof Promise) result.catch((error: unknown) => this.#failed(key, error))
    } catch (error) {
      this.#failed(key, error)
    }
  }

  #failed(key: string, error: unknown): void {
    this.#errors += 1
    this.#log.error('A handler failed', { resource: this.#resource, key, error })
  }
}
