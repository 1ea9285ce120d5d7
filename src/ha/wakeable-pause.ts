import type { Clock } from '../lib/ports-clock.ts'

/** A pause that can be cut short, also before it has begun. */
export class InterruptibleSleep {
  readonly #clock: Clock
  #isAwake = false
  #end: () => void = () => undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Ends the pause, or the next one where there is none. */
  wake(): void {
    this.#isAwake = true
    this.#end()
  }

  /** Resolves after so long, when woken or aborted. */
  async sleep(ms: number, signal: AbortSignal): Promise<void> {
    if (!this.#isAwake && !signal.aborted) {
      await new Promise<void>((resolve) => {
        const cancel = this.#clock.after(ms, resolve)
        this.#end = () => {
          cancel()
          resolve()
        }
        signal.addEventListener('abort', this.#end, { once: true })
      })
      signal.removeEventListener('abort', this.#end)
    }
    this.#isAwake = false
  }
}
