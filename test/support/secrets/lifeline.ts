/** The life of a process in memory: it ends at one of its calls, as `kill -9` would end it there. */
import type { Clock } from '../../../src/ports/clock.ts'

/** `after`: the call has had its effect, and nobody hears the answer. */
export type Death = { call: number; when: 'before' | 'after' }

export class Lifeline {
  /** What was called, in order, once `count` was set; the first has number 1. */
  readonly calls: string[] = []
  #counts = false
  #death: Death | undefined
  #dead = false

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

  /** The dead call nobody and hear nothing. */
  async call<T>(name: string, run: () => Promise<T>): Promise<T> {
    if (this.#dead) return await never()
    const isLast = this.#isLast(name)
    if (isLast === 'before') return await this.#end()
    const [result] = await Promise.allSettled([run()])
    if (isLast === 'after') return await this.#end()
    if (this.#dead) return await never()
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
    return never()
  }
}

function never(): Promise<never> {
  return new Promise(() => undefined)
}
