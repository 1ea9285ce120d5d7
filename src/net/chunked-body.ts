/**
 * The framing of a chunked body (RFC 9112 §7.1): where its trailer begins, and the bytes without chunk extensions, which a recipient
 * ignores if it does not know them (§7.1.1). undici's parser rejects white space around their semicolons, which RFC 9110 §5.6.3 asks a
 * recipient to accept.
 */

import { errors } from 'undici'

/** Of one chunk: a size has at most 14 that count, and zeros may come before. */
const MAX_DIGITS = 64
/** In all chunks of a response; as much as of other fields. */
const MAX_EXTENSION_BYTES = 16 * 1024

const TAB = 9
const LF = 10
const CR = 13
const SP = 32
const SEMICOLON = 59

/** What follows the chunks: the line end of the last one and the trailer, or bytes that are not chunked. */
type AfterChunks = { kind: 'trailer' | 'other'; rest: Buffer }

/**
 *   size --digits--> size --space--> space --semicolon--> extension
 *   size, space, extension --CR, size 0--> trailer
 *   size, space, extension --CR--> line feed --LF--> data --all of it--> data CR --CR--> data LF --LF--> size
 *
 * Any other byte ends it: the parser rejects it.
 */
export class ChunkedBody {
  #state: 'size' | 'space' | 'extension' | 'line feed' | 'data' | 'data CR' | 'data LF' = 'size'
  #digits = 0
  #size = 0
  #dataLeft = 0
  #extensionBytes = 0

  /**
   * @param pass gets the bytes to pass on, in their order
   * @returns undefined if the chunks have not ended @throws HeadersOverflowError if the extensions are too long
   */
  read(bytes: Buffer, pass: (bytes: Buffer) => void): AfterChunks | undefined {
    /** Where the bytes begin that have not been passed on. */
    let from = 0
    let at = 0
    const passUntil = (end: number) => {
      if (end > from) pass(bytes.subarray(from, end))
      from = end
    }
    while (at < bytes.length) {
      if (this.#state === 'data') {
        at += this.#skipData(bytes.length - at)
        continue
      }
      const step = this.#step(bytes[at] ?? 0)
      if (step === 'trailer' || step === 'other') {
        passUntil(at)
        return { kind: step, rest: bytes.subarray(at) }
      }
      if (step === 'drop') {
        passUntil(at)
        from = at + 1
      }
      at += 1
    }
    passUntil(at)
    return undefined
  }

  #skipData(available: number): number {
    const skipped = Math.min(this.#dataLeft, available)
    this.#dataLeft -= skipped
    if (this.#dataLeft === 0) this.#state = 'data CR'
    return skipped
  }

  #step(byte: number): 'pass' | 'drop' | AfterChunks['kind'] {
    switch (this.#state) {
      case 'size':
        return this.#readDigit(byte)
      case 'space':
      case 'extension':
        return this.#readExtension(byte)
      case 'line feed':
        if (byte !== LF) return 'other'
        this.#dataLeft = this.#size
        this.#state = 'data'
        return 'pass'
      case 'data CR':
        this.#state = 'data LF'
        return byte === CR ? 'pass' : 'other'
      default:
        this.#state = 'size'
        this.#digits = 0
        this.#size = 0
        return byte === LF ? 'pass' : 'other'
    }
  }

  #readDigit(byte: number): 'pass' | 'drop' | AfterChunks['kind'] {
    const digit = hexDigit(byte)
    if (digit === undefined) {
      if (this.#digits === 0) return 'other'
      this.#state = 'space'
      return this.#readExtension(byte)
    }
    this.#digits += 1
    if (this.#digits > MAX_DIGITS) throw new errors.HeadersOverflowError()
    this.#size = this.#size * 16 + digit
    return this.#size <= Number.MAX_SAFE_INTEGER ? 'pass' : 'other'
  }

  #readExtension(byte: number): 'pass' | 'drop' | AfterChunks['kind'] {
    if (byte === CR) {
      if (this.#size === 0) return 'trailer'
      this.#state = 'line feed'
      return 'pass'
    }
    if (byte === SEMICOLON) this.#state = 'extension'
    const isPart = this.#state === 'extension' ? byte !== LF : byte === SP || byte === TAB
    if (!isPart) return 'other'
    this.#extensionBytes += 1
    if (this.#extensionBytes > MAX_EXTENSION_BYTES) throw new errors.HeadersOverflowError()
    return 'drop'
  }
}

function hexDigit(byte: number): number | undefined {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30
  const letter = byte | 0x20
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : undefined
}
