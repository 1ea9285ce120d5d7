/** The life of a process in memory: it ends at one of its calls, as `kill -9` would end it there. */

import { ApiError } from '../../../src/kube/client.ts'
import type { Clock } from '../../../src/lib/time.ts'

/** `after`: the call has had its effect, and nobody hears the answer. */
export type Death = { call: number; when: 'before' | 'after' }

export class Lifeline {
  /** What was called, in order, once `count` was set; the first has number 1. */
  readonly calls: string[] = []
  #counts = false
  #death: Death | undefined
  #dead = false
  readonly #silence = Promise.withResolvers<never>()

  constructor() {
    this.#silence.promise.catch(() => undefined)
  }

  get dead(): boolean {
    return this.#dead
  }

  /** From now on calls are counted. */
  count(death?: Death): void {
    this.#counts = true
    this.#death = death
  }

  kill(): void {
    this.#dead = true
  }

  /** What waits for an answer from the dead is told that none comes, so that it can be cleared away. */
  bury(): void {
    this.#dead = true
    this.#silence.reject(new ApiError('Unavailable', 'the process has ended'))
  }

  /** What the dead wait for. */
  silence(): Promise<never> {
    return this.#silence.promise
  }

  /** The dead call nobody and hear nothing. */
  async call<T>(name: string, run: () => Promise<T>): Promise<T> {
    if (this.#dead) return await this.silence()
    const isLast = this.#isLast(name)
    if (isLast === 'before') return await this.#end()
    const [result] = await Promise.allSettled([run()])
    if (isLast === 'after') return await this.#end()
    if (this.#dead) return await this.silence()
    if (result.status === 'rejected') throw result.reason
    return result.value
  }

  /** Timers of the dead do nothing. */
  clock(inner: Clock): Clock {
    return {
      now: () => inner.now(),
      monotonic: () => inner.monotonic(),
      after: (ms, run) => inner.after(ms, () => (this.#dead ? undefined : run())),
    }
  }

  #isLast(name: string): Death['when'] | undefined {
    if (!this.#counts) return undefined
    this.calls.push(name)
    return this.calls.length === this.#death?.call ? this.#death.when : undefined
  }

  #end(): Promise<never> {
    this.#dead = true
    return this.silence()
  }
}
