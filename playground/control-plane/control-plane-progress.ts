/** How far a long piece of work is, in one line that is shown again and again. */
export type Progress = {
  /** May be called as often as one likes. */
  show(text: string): void
  /** The work is over. */
  end(): void
}

export type ProgressStream = {
  isTTY?: boolean | undefined
  columns?: number | undefined
  write(text: string): unknown
}

/** In a log, every change would be too much and minutes of silence look like a hang. */
const LOG_EVERY_MS = 10_000
const ERASE_LINE = '\r\u001b[2K'

/**
 * On a terminal one line that is written over; elsewhere a line now, and then one every ten seconds.
 *
 * @param monotonic milliseconds that never go back
 */
export function progressTo(
  stream: ProgressStream,
  monotonic: () => number = () => performance.now(),
): Progress {
  return stream.isTTY === true ? lineOn(stream) : linesOn(stream, monotonic)
}

function lineOn(stream: ProgressStream): Progress {
  return {
    // A line that wraps could not be erased.
    show: (text) => stream.write(`${ERASE_LINE}${text.slice(0, (stream.columns ?? 80) - 1)}`),
    end: () => stream.write(ERASE_LINE),
  }
}

function linesOn(stream: ProgressStream, monotonic: () => number): Progress {
  let last: { text: string; at: number } | undefined
  return {
    show: (text) => {
      if (last !== undefined && (text === last.text || monotonic() - last.at < LOG_EVERY_MS)) return
      last = { text, at: monotonic() }
      stream.write(`${text}\n`)
    },
    end: () => {},
  }
}
