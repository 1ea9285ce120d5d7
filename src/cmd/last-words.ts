/** What becomes of errors that nothing caught: a line of the log, never a bare stack on standard error. */
import type { Logger } from '../lib/ports-log.ts'

/** The part of `process` that tells of them. */
export type ErrorSource = {
  on(event: 'uncaughtException' | 'unhandledRejection', listener: (error: unknown) => void): unknown
}

export type UncaughtErrorOptions = {
  log: Logger & { flush(): void }
  /** Ends the process. */
  exit: (code: number) => void
}

/**
 * A rejection that nobody waits for leaves everything else as it was: the process goes on. After an exception in
 * a callback its state is unknown: it ends, and the next one goes on from the store.
 */
export function logUncaughtErrors(source: ErrorSource, { log, exit }: UncaughtErrorOptions): void {
  source.on('unhandledRejection', (error) => {
    log.error('A rejection that nobody waits for', { error, stack: stackOf(error) })
  })
  source.on('uncaughtException', (error) => {
    log.error('An exception that nothing caught; the process ends', { error, stack: stackOf(error) })
    log.flush()
    exit(1)
  })
}

/** Other errors are told by what they are; of a stray one nothing else tells where it came from. */
function stackOf(error: unknown): string | undefined {
  return error instanceof Error ? error.stack : undefined
}
