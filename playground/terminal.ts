import { stripVTControlCharacters } from 'node:util'

/** A terminal whose last lines stay in place while other lines scroll above them. */
export type Terminal = {
  /** Prints lines above the pinned ones. */
  print(...lines: readonly string[]): void
  /** Replaces the pinned lines. */
  pin(lines: readonly string[]): void
}

export type TerminalStream = {
  columns?: number | undefined
  rows?: number | undefined
  write(text: string): unknown
}

const ERASE_BELOW = '\r\u001b[J'

/** @param stream whose cursor is at the start of a line; while lines are pinned, nothing else may write there */
export function createTerminal(stream: TerminalStream): Terminal {
  let wanted: readonly string[] = []
  let drawn: readonly string[] = []
  const columns = () => stream.columns || 80
  // The terminal may have been resized since the lines were drawn, and then wraps them.
  const height = () => drawn.reduce((sum, line) => sum + Math.max(1, Math.ceil(line.length / columns())), 0)
  const erase = () => {
    if (drawn.length === 0) return ''
    const up = height() - 1
    return `${up > 0 ? `\u001b[${up}A` : ''}${ERASE_BELOW}`
  }
  const draw = () => {
    // One line is left to what scrolls. A line as wide as the terminal would wrap.
    const fitting = wanted.slice(-Math.max(1, (stream.rows || 24) - 1))
    const lines = fitting.map((line) => cut(line, columns() - 1))
    drawn = lines.map(stripVTControlCharacters)
    return lines.join('\n')
  }
  return {
    print: (...lines) => {
      stream.write(`${erase()}${lines.map((line) => `${line}\n`).join('')}${draw()}`)
    },
    pin: (lines) => {
      const erased = erase()
      wanted = lines
      stream.write(`${erased}${draw()}`)
    },
  }
}

/** A line that is too long loses its colors as well. */
function cut(line: string, width: number): string {
  const plain = stripVTControlCharacters(line)
  return plain.length > width ? plain.slice(0, width) : line
}
