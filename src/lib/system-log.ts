import pino from 'pino'
import { standardOutput } from './log.ts'
import type { Clock } from './ports-clock.ts'
import type { Logger } from './ports-log.ts'
import { redactFields, redactText } from './redact.ts'

export type LogLevel = 'info' | 'warn' | 'error'

export type LoggerOptions = {
  level: LogLevel
  clock: Pick<Clock, 'now'>
  /** Takes whole lines. Absent: standard output, written in the background. */
  destination?: { write(line: string): void }
}

export type StructuredLogger = Logger & {
  /** A log whose lines all carry `fields` as well. */
  child(fields: Record<string, unknown>): StructuredLogger
  /** Writes what is still in memory, without waiting for a reader that stands still; for an end at once. */
  flush(): void
  /** The same for an orderly end: resolves when all is written, or cannot be. Later lines are dropped. */
  close(): Promise<void>
}

/** One JSON object per line: `time` (ISO, UTC), `level`, `msg` and the fields, without secrets. */
export function createLogger(options: LoggerOptions): StructuredLogger {
  const { clock } = options
  const standard = options.destination ? undefined : standardOutput()
  const logger = pino(
    {
      level: options.level,
      base: null,
      timestamp: () => `,"time":"${new Date(clock.now()).toISOString()}"`,
      formatters: { level: (label) => ({ level: label }) },
    },
    options.destination ?? standard,
  )
  return wrap(logger, {
    flush: () => standard?.flushSync(),
    close: async () => await standard?.close(),
  })
}

function wrap(logger: pino.Logger, end: Pick<StructuredLogger, 'flush' | 'close'>): StructuredLogger {
  const at =
    (level: LogLevel) =>
    (message: string, fields: Record<string, unknown> = {}) => {
      if (logger.isLevelEnabled(level)) logger[level](redactFields(fields), redactText(message))
    }
  return {
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    child: (fields) => wrap(logger.child(redactFields(fields)), end),
    ...end,
  }
}
