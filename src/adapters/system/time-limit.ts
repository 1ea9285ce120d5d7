import { createContext, Script } from 'node:vm'

/** The call took longer than it may. */
export class TimeLimitError extends Error {
  override readonly name = 'TimeLimitError'
}

/** Runs synchronous calls that may take at most so long, even inside a regular expression. */
export type TimeLimit = <T>(run: () => T) => T

/**
 * A call costs some tens of microseconds more under the limit.
 * @returns the limit; it throws TimeLimitError, and whatever the call throws
 */
export function createTimeLimit(milliseconds: number): TimeLimit {
  const context = createContext({ run: () => undefined as unknown })
  const script = new Script('run()')
  return <T>(run: () => T): T => {
    context.run = run
    try {
      return script.runInContext(context, { timeout: milliseconds }) as T
    } catch (error) {
      if (isTimeout(error)) {
        throw new TimeLimitError(`took longer than ${milliseconds} ms`, { cause: error })
      }
      throw error
    } finally {
      context.run = undefined
    }
  }
}

/** The error is made in the other context, so it is no instance of this one's Error. */
function isTimeout(error: unknown): boolean {
  const object = typeof error === 'object' && error !== null
  return object && 'code' in error && error.code === 'ERR_SCRIPT_EXECUTION_TIMEOUT'
}
