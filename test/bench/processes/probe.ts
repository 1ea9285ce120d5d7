/** Loaded into the controller's process before it starts: lets the bench look into its heap. Needs `--expose-gc`. */
import { type Calls, serveCalls } from './remote-calls.ts'

export type ProbeCalls = {
  /** Bytes in use after a collection. */
  heap: (argument: null) => number
}

serveCalls({
  heap: () => {
    globalThis.gc?.()
    globalThis.gc?.()
    // Buffers that can grow are no part of `arrayBuffers`.
    const { heapUsed, external } = process.memoryUsage()
    return heapUsed + external
  },
} satisfies ProbeCalls satisfies Calls)
// The controller ends when it has nothing to do any more; the bench is no reason to stay.
process.channel?.unref()
