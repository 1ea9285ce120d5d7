import type { Clock } from '../lib/clock.ts'

/** Calls that wait for the value of a key to become what they want. */
export class Waiters<T> {
  readonly #clock: Pick<Clock, 'after'>
  readonly #waiting = new Map<string, Set<(value: T) => void>>()

  constructor(clock: Pick<Clock, 'after'>) {
    this.#clock = clock
  }

  notify(key: string, value: T): void {
    for (const waiter of [...(this.#waiting.get(key) ?? [])]) waiter(value)
  }

  /** The first value that is wanted; undefined after `ms` milliseconds. */
  wait(key: string, ms: number, isWanted: (value: T) => boolean): Promise<T | undefined> {
    return new Promise((resolve) => {
      const end = (value: T | undefined) => {
        stop()
        waiting.delete(waiter)
        if (waiting.size === 0) this.#waiting.delete(key)
        resolve(value)
      }
      const waiter = (value: T) => {
        if (isWanted(value)) end(value)
      }
      const stop = this.#clock.after(ms, () => end(undefined))
      const waiting = this.#waiting.get(key) ?? new Set()
      this.#waiting.set(key, waiting.add(waiter))
    })
  }
}
