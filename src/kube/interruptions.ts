/** Passes that are told to begin anew, since their object was deleted or is wanted otherwise by now. */
import { type ReconcileResult, requeueAfter } from './reconcile-loop.ts'

export class InterruptiblePasses {
  readonly #running = new Map<string, AbortController>()

  /** What `pass` gives; at once another pass, if it was interrupted. @param signal ends it for good */
  async run(
    key: string,
    signal: AbortSignal,
    pass: (signal: AbortSignal) => Promise<ReconcileResult>,
  ): Promise<ReconcileResult> {
    const interruption = new AbortController()
    this.#running.set(key, interruption)
    try {
      return await pass(AbortSignal.any([signal, interruption.signal]))
    } catch (error) {
      if (!interruption.signal.aborted || signal.aborted) throw error
      return requeueAfter(0)
    } finally {
      this.#running.delete(key)
    }
  }

  interrupt(key: string): void {
    this.#running.get(key)?.abort(new Error('it is wanted otherwise by now'))
  }
}
