/** Where the log is written: in the background, so that whoever reads it stops neither deliveries nor the end of the process. */
import { fstatSync } from 'node:fs'
import { Socket } from 'node:net'
import pino from 'pino'

export type LineOutput = {
  /** A whole line. */
  write(line: string): void
  /** Writes at once what is still in memory, as far as that cannot block. */
  flushSync(): void
  /** Resolves when all is written, after a second at the latest. Nothing is written afterwards. */
  close(): Promise<void>
}

const STANDARD_OUTPUT = 1
/** What may wait for a reader that stands still; lines beyond it are dropped. */
const MAX_BUFFERED_BYTES = 4 * 1024 * 1024
const LAST_LINES_MS = 1000

export function standardOutput(): LineOutput {
  const kind = fstatSync(STANDARD_OUTPUT)
  return kind.isFIFO() || kind.isSocket() ? toPipe() : toFile()
}

/**
 * A write to a full pipe blocks the thread that makes it, and a process with such a thread never ends. A socket asks
 * the pipe first, and takes what fits at once.
 */
function toPipe(): LineOutput {
  const pipe = new Socket({ fd: STANDARD_OUTPUT, readable: false, writable: true })
  // Nobody reads any more: there is nobody to tell.
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
    // Called when what was written before has gone.
    pipe.write('', done)
  })
}

/** Or to a terminal. */
function toFile(): LineOutput {
  const file = pino.destination({ dest: STANDARD_OUTPUT, sync: false, maxLength: MAX_BUFFERED_BYTES })
  return {
    write: (line) => void file.write(line),
    flushSync: () => file.flushSync(),
    close: async () => file.flushSync(),
  }
}
