const NEWLINE = 10

/** A line went over the limit. */
export class LineTooLong extends Error {
  override readonly name = 'LineTooLong'
}

/**
 * Splits a stream of bytes at newlines. Works on bytes, so a character that two chunks share stays whole, and
 * looks at each byte once, however many chunks a line comes in.
 */
export class LineSplitter {
  readonly #maxBytes: number
  #pieces: Buffer[] = []
  #bytes = 0

  /** @param maxBytes of one line */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  /** Bytes of a line that has not ended yet. */
  get pending(): number {
    return this.#bytes
  }

  /** The lines that ended in this chunk, without their newlines; empty lines are left out. @throws LineTooLong */
  push(chunk: Buffer): Buffer[] {
    const lines: Buffer[] = []
    let start = 0
    for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, start)) {
      const line = this.#complete(chunk.subarray(start, end))
      if (line.length > 0) lines.push(line)
      start = end + 1
    }
    if (start < chunk.length) this.#keep(chunk.subarray(start))
    return lines
  }

  #complete(last: Buffer): Buffer {
    if (this.#bytes === 0) return last
    this.#keep(last)
    const line = Buffer.concat(this.#pieces, this.#bytes)
    this.#pieces = []
    this.#bytes = 0
    return line
  }

  #keep(piece: Buffer): void {
    this.#pieces.push(piece)
    this.#bytes += piece.length
    if (this.#bytes > this.#maxBytes) throw new LineTooLong(`a line is longer than ${this.#maxBytes} bytes`)
  }
}
