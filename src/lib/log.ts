import { fstatSync } from 'node:fs'
import { Socket } from 'node:net'
import pino from 'pino'
import { redactFields, redactText } from './redact.ts'
import type { Clock } from './time.ts'

/**
 * Structured log. Secrets, keys and payloads must never be passed.
 *
 * `event` is the stable code of what happened, in snake_case (`reconcile_failed`). Runbooks and searches rely on it; each code stands for
 * one kind of occurrence. It becomes the member `event` of the JSON line, next to `msg`, and overwrites a field of that name.
 *
 * `message` is for people and may change: lower case, no full stop. Data belongs into `fields`.
 */
export interface Logger {
  info(event: string, message: string, fields?: Record<string, unknown>): void
  warn(event: string, message: string, fields?: Record<string, unknown>): void
  error(event: string, message: string, fields?: Record<string, unknown>): void
}

/** Output in the background, so that a slow reader blocks neither deliveries nor the exit of the process. */
export type LineOutput = {
  /** @param line a whole line */
  write(line: string): void
  /** Writes buffered lines at once, as far as possible without blocking. */
  flushSync(): void
  /** Resolves when everything is written, after a second at the latest. Later lines are dropped. */
  close(): Promise<void>
}

const STANDARD_OUTPUT = 1
/** Limit of buffered bytes for a stalled reader; further lines are dropped. */
const MAX_BUFFERED_BYTES = 4 * 1024 * 1024
const LAST_LINES_MS = 1000

function standardOutput(): LineOutput {
  const kind = fstatSync(STANDARD_OUTPUT)
  return kind.isFIFO() || kind.isSocket() ? toPipe() : toFile()
}

/**
 * A write to a full pipe blocks its thread, and a process with such a thread never ends. A socket checks the pipe
 * first and writes what fits at once.
 */
function toPipe(): LineOutput {
  const pipe = new Socket({ fd: STANDARD_OUTPUT, readable: false, writable: true })
  // There is no reader any more.
  pipe.on('error', () => undefined)
  pipe.unref()
  return {
    write(line) {
      if (pipe.writable && pipe.writableLength < MAX_BUFFERED_BYTES) pipe.write(line)
    },
    flushSync: () => undefined,
    async close() {
      if (pipe.writableLength > 0) await lastLines(pipe)
      pipe.destroy()
    },
  }
}

function lastLines(pipe: Socket): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, LAST_LINES_MS)
    const done = () => {
      clearTimeout(timer)
      resolve()
    }
    pipe.once('close', done)
    // Called when everything before has been written.
    pipe.write('', done)
  })
}

/** A file or a terminal. */
function toFile(): LineOutput {
  const file = pino.destination({ dest: STANDARD_OUTPUT, sync: false, maxLength: MAX_BUFFERED_BYTES })
  return {
    write: (line) => void file.write(line),
    flushSync: () => file.flushSync(),
    close: async () => file.flushSync(),
  }
}

export type LogLevel = 'info' | 'warn' | 'error'

export type LoggerOptions = {
  level: LogLevel
  clock: Pick<Clock, 'now'>
  /** Takes whole lines. Absent: standard output, in the background. */
  destination?: { write(line: string): void }
}

export type StructuredLogger = Logger & {
  /** A logger that adds `fields` to every line. */
  child(fields: Record<string, unknown>): StructuredLogger
  /** Writes what is buffered without waiting for a stalled reader, for an immediate exit. */
  flush(): void
  /** The same for a graceful exit: resolves when everything is written, or cannot be. Later lines are dropped. */
  close(): Promise<void>
}

/** One JSON object per line: `level`, `time` (ISO, UTC), the fields without secrets, `event` and `msg`. */
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
    (event: string, message: string, fields: Record<string, unknown> = {}) => {
      if (logger.isLevelEnabled(level)) logger[level]({ ...redactFields(fields), event }, redactText(message))
    }
  return {
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    child: (fields) => wrap(logger.child(redactFields(fields)), end),
    ...end,
  }
}
