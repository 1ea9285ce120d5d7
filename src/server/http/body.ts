import type { IncomingMessage } from 'node:http'
import { MIMEType } from 'node:util'
import type { Clock } from '../../lib/time.ts'
import type { Reservation } from './limits.ts'
import { Problem } from './problems.ts'

/**
 * The body of a request while it arrives, in bounded memory. Before the client is authorized, at most one read of the socket waits;
 * after that, the body is read into memory that was reserved for it.
 */

/** Chunks of any size; more of them must carry so many bytes on average. */
const FREE_CHUNKS = 1_024
const BYTES_PER_CHUNK = 64
/** What a client whose chunks are too small may still send, in chunks, before its connection is closed. */
const IGNORED_CHUNKS = 2_048

export function areChunksTooSmall(chunks: number, bytes: number): boolean {
  return chunks > FREE_CHUNKS + bytes / BYTES_PER_CHUNK
}

function chunksTooSmall(): Problem {
  return new Problem('bad_request', {
    detail:
      'The body is arriving in too many small chunks. Send a Content-Length header, or use chunks of at least 64 bytes.',
    headers: { connection: 'close' },
  })
}

/** Bytes that arrive in pieces. Doubles, so that a body that arrives slowly takes little. */
class GrowingBuffer {
  readonly #maxBytes: number
  #buffer = Buffer.alloc(0)
  #length = 0

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  get length(): number {
    return this.#length
  }

  get bytes(): Buffer {
    return this.#buffer.subarray(0, this.#length)
  }

  append(chunk: Uint8Array): void {
    const length = this.#length + chunk.length
    if (length > this.#buffer.length) {
      const larger = Buffer.allocUnsafeSlow(
        Math.max(length, Math.min(2 * this.#buffer.length, this.#maxBytes)),
      )
      larger.set(this.bytes)
      this.#buffer = larger
    }
    this.#buffer.set(chunk, this.#length)
    this.#length = length
  }
}

type Push = IncomingMessage['push']

/**
 * Stands between Node's parser and the stream of a request. The parser makes a buffer of each chunk, which takes some 400 bytes even for
 * one byte. The stream would keep 64 KiB of them, unread: 25 MB. So chunks that nobody reads yet are joined, and stop the socket.
 */
export class ArrivingBody {
  readonly #request: IncomingMessage
  readonly #push: Push
  readonly #isChunked: boolean
  #unread: GrowingBuffer | undefined
  #chunks = 0
  #bytes = 0
  /** Undefined unless chunks are too small: how many came since. */
  #ignored: number | undefined
  #onTooSmall: () => void = () => undefined

  /** Call it before anything else could see a chunk. */
  constructor(request: IncomingMessage) {
    this.#request = request
    this.#isChunked = request.headers['transfer-encoding'] !== undefined
    this.#push = request.push.bind(request)
    request.push = (chunk: Uint8Array | null) => this.#take(chunk)
    request.once('resume', () => this.#flush())
  }

  /** Calls `listener` as soon as chunks are too small: nothing more arrives then. */
  onTooSmall(listener: () => void): void {
    this.#onTooSmall = listener
    if (this.#ignored !== undefined) listener()
  }

  /** @returns whether the socket may go on */
  #take(chunk: Uint8Array | null): boolean {
    if (chunk === null) {
      this.#flush()
      return this.#push(null)
    }
    if (this.#ignored !== undefined) return this.#ignore(this.#ignored + 1)
    this.#chunks += 1
    this.#bytes += chunk.length
    if (this.#isChunked && areChunksTooSmall(this.#chunks, this.#bytes)) return this.#ignore(0)
    if (this.#request.readableFlowing) {
      this.#flush()
      return this.#push(chunk)
    }
    this.#unread ??= new GrowingBuffer(Number.POSITIVE_INFINITY)
    this.#unread.append(chunk)
    return false
  }

  #ignore(count: number): boolean {
    // Until something reads them, they wait in the socket, so that the client still gets its answer.
    const isRead = this.#request.readableFlowing === true
    this.#ignored = isRead ? count : 0
    this.#unread = undefined
    if (count === 0) this.#onTooSmall()
    if (this.#ignored > IGNORED_CHUNKS) this.#request.destroy()
    return isRead
  }

  #flush(): void {
    const unread = this.#unread
    this.#unread = undefined
    if (unread) this.#push(unread.bytes)
  }
}

export type BodyReader = {
  clock: Pick<Clock, 'after'>
  arriving: ArrivingBody
  maxBytes: number
  /** Memory to reserve for each byte. */
  factor: number
  /** For the whole body. */
  deadlineMs: number
  /** Reserves memory until the end of the request. @throws Problem overloaded */
  reserve(bytes: number): Reservation
}

function tooLarge(maxBytes: number): Problem {
  return new Problem('body_too_large', { detail: `The body must be at most ${maxBytes / 1024} KiB.` })
}

const WANTED =
  'Send the body as UTF-8 JSON, with the header Content-Type: application/json and no Content-Encoding header. With curl, use --json instead of -d.'
export const JSON_TYPE = 'application/json'

/**
 * The body as text, undefined if there is none. Refuses a wrong body as early as possible, while it streams.
 * @throws Problem unsupported_media_type, body_too_large, request_timeout, bad_json (no UTF-8), bad_request, overloaded
 */
export async function readBody(request: IncomingMessage, reader: BodyReader): Promise<string | undefined> {
  const { headers } = request
  const length = Number(headers['content-length'] ?? 0)
  const isChunked = headers['transfer-encoding'] !== undefined
  if (!isChunked && length === 0) return undefined
  if (length > reader.maxBytes) throw tooLarge(reader.maxBytes)
  if (length > 0) checkType(request)
  const mostBytes = isChunked ? reader.maxBytes : length
  const reservation = reader.reserve(reader.factor * mostBytes)
  const body = await collect(request, reader, mostBytes)
  reservation.shrinkTo(reader.factor * body.length)
  return body.length === 0 ? undefined : decodeUtf8(body.bytes)
}

/** @throws Problem unsupported_media_type, with the headers that say what would have been accepted (RFC 9110 §15.5.16, RFC 5789 §2.2) */
function checkType({ headers, method }: IncomingMessage): void {
  const isPlain = (headers['content-encoding'] ?? 'identity').toLowerCase() === 'identity'
  if (isPlain && isJson(headers['content-type'] ?? '')) return
  const accepted = { [method === 'PATCH' ? 'accept-patch' : 'accept']: JSON_TYPE }
  throw new Problem('unsupported_media_type', {
    detail: WANTED,
    headers: isPlain ? accepted : { ...accepted, 'accept-encoding': 'identity' },
  })
}

/** JSON in UTF-8. Other parameters mean nothing (RFC 8259 §11). */
function isJson(contentType: string): boolean {
  // As most clients send it.
  if (contentType === JSON_TYPE) return true
  try {
    const { essence, params } = new MIMEType(contentType)
    const charset = params.get('charset') ?? 'utf-8'
    return essence === JSON_TYPE && new TextDecoder(charset).encoding === 'utf-8'
  } catch {
    // Neither a media type nor a character set that exists.
    return false
  }
}

function collect(request: IncomingMessage, reader: BodyReader, maxBytes: number): Promise<GrowingBuffer> {
  const { clock, deadlineMs, arriving } = reader
  return new Promise((resolve, reject) => {
    const body = new GrowingBuffer(maxBytes)
    const stopTimer = clock.after(deadlineMs, () => end(new Problem('request_timeout')))
    const onData = (chunk: Buffer) => {
      if (body.length + chunk.length > maxBytes) return end(tooLarge(reader.maxBytes))
      try {
        // A chunked body may be empty, and then needs no type.
        if (body.length === 0) checkType(request)
        body.append(chunk)
      } catch (error) {
        end(error)
      }
    }
    const onEnd = () => end()
    const onClose = () =>
      end(new Problem('bad_request', { detail: 'The connection closed before the body was complete.' }))
    const end = (error?: unknown) => {
      stopTimer()
      request.off('data', onData).off('end', onEnd).off('close', onClose)
      // Later errors of the connection do not matter.
      request.on('error', () => undefined)
      if (error === undefined) resolve(body)
      else reject(error)
    }
    request.on('data', onData).on('end', onEnd).on('close', onClose).on('error', onClose)
    arriving.onTooSmall(() => end(chunksTooSmall()))
  })
}

const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

function decodeUtf8(bytes: Uint8Array): string {
  try {
    return UTF8.decode(bytes)
  } catch {
    throw new Problem('bad_json', { detail: 'The body is not valid UTF-8.' })
  }
}
