import type { Socket } from 'node:net'
import { errors } from 'undici'
import { ChunkedBody } from './chunked-body.ts'

/**
 * Lets undici read responses that RFC 9110 and RFC 9112 ask a client to accept, and that undici and its parser reject: an interim
 * response that was not asked for (RFC 9110 §15.2), such as the 100 that some proxies always send, field lines of a header or a trailer
 * that are continued on the next line (RFC 9112 §5.2), spaces after a length (RFC 9112 §5), and spaces around chunk extensions. The
 * bytes are changed between the socket and undici, which has no option for any of them. All else reaches undici as it came.
 */

/** As much of an interim response as of a final one. */
const MAX_INTERIM_BYTES = 16 * 1024
/** White space in the fields of a response that stands for one space or none. */
const MAX_GAP_BYTES = 16 * 1024

/** The start of an interim response. 101 is none: after it the connection no longer speaks HTTP (RFC 9110 §15.2.2). */
const INTERIM = /^HTTP\/1\.[01] 1(?!01)\d\d[ \r\n]/
const INTERIM_LENGTH = 'HTTP/1.1 100 '.length
/** Texts that may become one. */
const INTERIM_START =
  /^(?:|H|HT|HTT|HTTP|HTTP\/|HTTP\/1|HTTP\/1\.|HTTP\/1\.[01]|HTTP\/1\.[01] |HTTP\/1\.[01] 1\d{0,2})$/

const EMPTY = Buffer.alloc(0)
const TAB = 9
const LF = 10
const CR = 13
const SP = 32
const DIGIT_1 = 49
/** Where the status code begins in `HTTP/1.1 200`. */
const CODE_AT = 9
const HEAD_END = Buffer.from('\r\n\r\n')
/** What the parser may not understand in a head. */
const UNUSUAL = ['\r\n ', '\r\n\t', ' \r\n', '\t\r\n'].map((text) => Buffer.from(text))

/** What was read since the last byte that was passed on: a gap may become a space, a line end, or the end of the head. */
type Gap = 'none' | 'spaces' | 'line end' | 'fold'

/**
 * The bytes of one connection, in the order of its responses. Almost nothing is held back, so that the parser rejects at once what is
 * not HTTP.
 *
 *   start --a status from 100 to 199 except 101--> interim --empty line--> start
 *   start --any other byte--> head --empty line, or a bare line feed--> body --next request--> start
 *   head --empty line, and the body is chunked--> chunks --the last chunk--> trailer --empty line, or a bare line feed--> body
 */
export class ResponseNormalizer {
  #state: 'start' | 'interim' | 'head' | 'chunks' | 'trailer' | 'body' = 'start'
  /** The start of a status line that may be that of an interim response. */
  #held: Buffer = EMPTY
  #gap: Gap = 'none'
  #gapBytes = 0
  #afterCr = false
  /** The status line has ended. */
  #inFields = false
  #interimBytes = 0
  #interimLineLength = 0
  #coding = new TransferCoding()
  #chunks = new ChunkedBody()

  /** The next bytes are the response to a request that is being sent. */
  expectResponse(): void {
    this.#state = 'start'
    this.#held = EMPTY
    this.#interimBytes = 0
  }

  /** What to parse; may be empty. @throws HeadersOverflowError if an interim response is too large */
  push(chunk: Buffer): Buffer {
    if (this.#state === 'body') return chunk
    if (this.#state === 'start' && this.#held.length === 0) {
      const end = endOfPlainHead(chunk)
      if (end !== undefined) return this.#passHead(chunk, end)
    }
    let rest = this.#held.length > 0 ? Buffer.concat([this.#held, chunk]) : chunk
    this.#held = EMPTY
    while (this.#state === 'start' || this.#state === 'interim') {
      const next = this.#state === 'start' ? this.#readStart(rest) : this.#dropInterim(rest)
      if (!next) return EMPTY
      rest = next
    }
    return this.#state === 'chunks' ? this.#readChunks(rest) : this.#readFields(rest)
  }

  #passHead(bytes: Buffer, end: number): Buffer {
    const head = bytes.subarray(0, end)
    const coding = new TransferCoding()
    if (CODING_NAME.test(head.toString('latin1'))) for (const byte of head) coding.see(byte)
    this.#startBody(coding.isChunked)
    if (this.#state === 'body') return bytes
    return joined([head, this.#readChunks(bytes.subarray(end))])
  }

  #startBody(isChunked: boolean): void {
    this.#state = isChunked ? 'chunks' : 'body'
    this.#chunks = new ChunkedBody()
  }

  #readChunks(bytes: Buffer): Buffer {
    const parts: Buffer[] = []
    const after = this.#chunks.read(bytes, (part) => void parts.push(part))
    if (after?.kind === 'trailer') {
      this.#startFields('trailer')
      parts.push(this.#readFields(after.rest))
    } else if (after) {
      this.#state = 'body'
      parts.push(after.rest)
    }
    return joined(parts)
  }

  /** @returns undefined if more bytes are needed */
  #readStart(bytes: Buffer): Buffer | undefined {
    let at = 0
    // The parser, too, ignores empty lines before a response.
    while (bytes[at] === CR || bytes[at] === LF) at += 1
    const start = bytes.toString('latin1', at, at + INTERIM_LENGTH)
    const rest = bytes.subarray(at)
    if (INTERIM_START.test(start)) {
      this.#held = rest
      return undefined
    }
    const isInterim = INTERIM.test(start)
    this.#interimLineLength = 0
    if (isInterim) this.#state = 'interim'
    else this.#startFields('head')
    return rest
  }

  /** The line before the fields is next: the status line, or the rest of the line of the last chunk. */
  #startFields(state: 'head' | 'trailer'): void {
    this.#state = state
    this.#gap = 'none'
    this.#gapBytes = 0
    this.#afterCr = false
    this.#inFields = false
    this.#coding = new TransferCoding()
  }

  /** @returns what follows the interim response; undefined if it has not ended */
  #dropInterim(bytes: Buffer): Buffer | undefined {
    for (const [at, byte] of bytes.entries()) {
      this.#interimBytes += 1
      if (this.#interimBytes > MAX_INTERIM_BYTES) throw new errors.HeadersOverflowError()
      if (byte === LF && this.#interimLineLength === 0) {
        this.#state = 'start'
        this.#interimBytes = 0
        return bytes.subarray(at + 1)
      }
      if (byte === LF) this.#interimLineLength = 0
      else if (byte !== CR) this.#interimLineLength += 1
    }
    return undefined
  }

  #readFields(bytes: Buffer): Buffer {
    // Room for the gap that may be left of the bytes before.
    const out = new Output(bytes.length + 4, this.#coding)
    for (const [at, byte] of bytes.entries()) {
      if (this.#afterCr && byte === LF) {
        this.#afterCr = false
        if (this.#gap === 'line end') return this.#endFields(out, bytes, at)
        this.#endLine(out)
      } else if (byte === LF) {
        this.#flush(out)
        // Rejected by the parser.
        this.#state = 'body'
        return out.with(bytes.subarray(at))
      } else {
        this.#readByte(out, byte)
      }
    }
    return out.with(EMPTY)
  }

  #readByte(out: Output, byte: number): void {
    if (this.#afterCr) {
      this.#flush(out)
      out.add(CR)
    }
    this.#afterCr = byte === CR
    if (byte === CR) return
    if (byte !== SP && byte !== TAB) {
      this.#flush(out)
      out.add(byte)
      return
    }
    this.#gapBytes += 1
    // The parser, which has a limit of its own, sees little of them.
    if (this.#gapBytes > MAX_GAP_BYTES) throw new errors.HeadersOverflowError()
    if (this.#gap === 'line end') this.#gap = 'fold'
    else if (this.#gap === 'none') this.#gap = 'spaces'
  }

  #endLine(out: Output): void {
    // Spaces after the status line are not a continued line (RFC 9112 §2.2).
    if (this.#gap === 'fold' && !this.#inFields) this.#flush(out)
    this.#gap = 'line end'
  }

  #endFields(out: Output, bytes: Buffer, at: number): Buffer {
    this.#flush(out)
    out.add(CR)
    out.add(LF)
    const rest = bytes.subarray(at + 1)
    this.#startBody(this.#state === 'head' && this.#coding.isChunked)
    return out.with(this.#state === 'chunks' ? this.#readChunks(rest) : rest)
  }

  #flush(out: Output): void {
    const isRealLineEnd = this.#gap === 'line end' || (this.#gap === 'fold' && !this.#inFields)
    if (isRealLineEnd) {
      out.add(CR)
      out.add(LF)
      this.#inFields = true
    }
    if (this.#gap === 'spaces' || this.#gap === 'fold') out.add(SP)
    this.#gap = 'none'
  }
}

class Output {
  readonly #bytes: Buffer
  readonly #coding: TransferCoding
  #length = 0

  /** @param coding sees all bytes */
  constructor(size: number, coding: TransferCoding) {
    this.#bytes = Buffer.allocUnsafe(size)
    this.#coding = coding
  }

  add(byte: number): void {
    this.#bytes[this.#length] = byte
    this.#length += 1
    this.#coding.see(byte)
  }

  /** All bytes, and `rest` after them. */
  with(rest: Buffer): Buffer {
    return joined([this.#bytes.subarray(0, this.#length), rest])
  }
}

const MAX_CODING_LINE = 256
const CODING_NAME = /transfer-encoding/i
const CODING_FIELD = /^transfer-encoding:(.*)\r$/i
const CHUNKED_IS_LAST = /(?:^|,)[ \t]*chunked[ \t]*$/i

/** Whether a head announces a chunked body. A field that is longer than any in use does not, nor does what the parser rejects. */
class TransferCoding {
  #line = ''
  #before = 0
  #hasBareLf = false
  /** Whether it is the coding applied last, of all fields so far (RFC 9112 §6.1). */
  #chunkedIsLast = false

  get isChunked(): boolean {
    return this.#chunkedIsLast && !this.#hasBareLf
  }

  see(byte: number): void {
    if (byte === LF) this.#endLine()
    else if (this.#line.length < MAX_CODING_LINE) this.#line += String.fromCharCode(byte)
    this.#before = byte
  }

  #endLine(): void {
    if (this.#before !== CR) this.#hasBareLf = true
    const [, codings] = CODING_FIELD.exec(this.#line) ?? []
    if (codings !== undefined) this.#chunkedIsLast = CHUNKED_IS_LAST.test(codings)
    this.#line = ''
  }
}

function joined(parts: readonly Buffer[]): Buffer {
  const [first = EMPTY, ...others] = parts.filter(({ length }) => length > 0)
  return others.length === 0 ? first : Buffer.concat([first, ...others])
}

/** Where a whole head ends that the parser understands, as almost every one is. */
function endOfPlainHead(chunk: Buffer): number | undefined {
  if (chunk.length < INTERIM_LENGTH || chunk[CODE_AT] === DIGIT_1 || chunk[0] === CR || chunk[0] === LF)
    return undefined
  const end = chunk.indexOf(HEAD_END)
  if (end < 0) return undefined
  const head = chunk.subarray(0, end + 2)
  return UNUSUAL.some((bytes) => head.includes(bytes)) ? undefined : end + HEAD_END.length
}

/** undici reads a socket with `read` alone. Call it before undici gets the socket. */
export function normalizeResponses(socket: Socket): ResponseNormalizer {
  const normalizer = new ResponseNormalizer()
  const read = socket.read.bind(socket)
  socket.read = (size?: number) => {
    for (;;) {
      const chunk = read(size) as Buffer | null
      if (chunk === null) return null
      try {
        const bytes = normalizer.push(chunk)
        if (bytes.length > 0) return bytes
      } catch (error) {
        socket.destroy(error instanceof Error ? error : undefined)
        return null
      }
    }
  }
  return normalizer
}
