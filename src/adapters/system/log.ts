import pino from 'pino'
import type { Clock } from '../../ports/clock.ts'
import type { Log } from '../../ports/log.ts'
import { redactFields, redactText } from './redact.ts'

export type LogLevel = 'info' | 'warn' | 'error'

export type LogOptions = {
  level: LogLevel
  clock: Pick<Clock, 'now'>
  /** Takes whole lines. Absent: standard output, written in the background. */
  destination?: { write(line: string): void }
}

export type StructuredLog = Log & {
  /** A log whose lines all carry `fields` as well. */
  child(fields: Record<string, unknown>): StructuredLog
  /** Writes out what is still in memory; for the end of the process. */
  flush(): void
}

/** What may wait for a reader of standard output that stands still; lines beyond it are dropped. */
const MAX_BUFFERED_BYTES = 4 * 1024 * 1024

/** One JSON object per line: `time` (ISO, UTC), `level`, `msg` and the fields, without secrets. */
export function createLog(options: LogOptions): StructuredLog {
  const { clock } = options
  // Written in the background: a full pipe must stop neither deliveries nor lease renewals.
  const output =
    options.destination ?? pino.destination({ dest: 1, sync: false, maxLength: MAX_BUFFERED_BYTES })
  const logger = pino(
    {
      level: options.level,
      base: null,
      timestamp: () => `,"time":"${new Date(clock.now()).toISOString()}"`,
      formatters: { level: (label) => ({ level: label }) },
    },
    output,
  )
  const flush = () => {
    if ('flushSync' in output && typeof output.flushSync === 'function') output.flushSync()
  }
  return wrap(logger, flush)
}

function wrap(logger: pino.Logger, flush: () => void): StructuredLog {
  const at =
    (level: LogLevel) =>
    (message: string, fields: Record<string, unknown> = {}) => {
      if (logger.isLevelEnabled(level)) logger[level](redactFields(fields), redactText(message))
    }
  return {
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    child: (fields) => wrap(logger.child(redactFields(fields)), flush),
    flush,
  }
}
