import { createContext, Script } from 'node:vm'

/** The call took longer than it may. */
export class TimeLimitError extends Error {
  override readonly name = 'TimeLimitError'
}

/** Runs synchronous calls that may take at most so long, even inside a regular expression. They may be begun again. */
export type TimeLimit = <T>(run: () => T) => T

/** One that had less of its time than that in CPU says nothing of the call: the machine had something else to do. */
const LEAST_CPU = 0.5
const MOST_TRIES = 3

/**
 * A call costs some tens of microseconds more under the limit.
 * @param usedMs CPU of this process so far
 * @returns the limit; it throws TimeLimitError, and whatever the call throws
 */
export function createTimeLimit(milliseconds: number, usedMs: () => number = cpuOfProcess): TimeLimit {
  const context = createContext({ run: () => undefined as unknown })
  const script = new Script('run()')
  return <T>(run: () => T): T => {
    context.run = run
    try {
      for (let tries = 1; ; tries += 1) {
        const before = usedMs()
        try {
          return script.runInContext(context, { timeout: milliseconds }) as T
        } catch (error) {
          if (!isTimeout(error)) throw error
          if (usedMs() - before >= milliseconds * LEAST_CPU || tries === MOST_TRIES)
            throw new TimeLimitError(`took longer than ${milliseconds} ms`, { cause: error })
        }
      }
    } finally {
      context.run = undefined
    }
  }
}

/** Of all its threads. */
function cpuOfProcess(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}

/** The error is made in the other context, so it is no instance of this one's Error. */
function isTimeout(error: unknown): boolean {
  const object = typeof error === 'object' && error !== null
  return object && 'code' in error && error.code === 'ERR_SCRIPT_EXECUTION_TIMEOUT'
}
