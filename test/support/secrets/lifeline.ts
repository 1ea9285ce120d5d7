/** The life of a process in memory: it ends at one of its calls, like after `kill -9`. */

import { ApiError } from '../../../src/kube/client.ts'
import type { Clock } from '../../../src/lib/time.ts'

/** `after`: the call has its effect, but its answer is lost. */
export type Death = { call: number; when: 'before' | 'after' }

export class Lifeline {
  /** Calls in order since `count`; the first has number 1. */
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

  /** Starts to count calls. */
  count(death?: Death): void {
    this.#counts = true
    this.#death = death
  }

  kill(): void {
    this.#dead = true
  }

  /** Fails the calls that wait for a dead process, so that they can be cleaned up. */
  bury(): void {
    this.#dead = true
    this.#silence.reject(new ApiError('Unavailable', 'the process has ended'))
  }

  /** Never resolves until it is buried. */
  silence(): Promise<never> {
    return this.#silence.promise
  }

  /** A dead process sends no calls and gets no answers. */
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

  /** Timers of a dead process do nothing. */
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
