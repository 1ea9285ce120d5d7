/**
 * Looks for many secrets, in all their forms, in hundreds of megabytes: each form is cut into windows, and a rolling hash over what
 * is looked at finds them. A piece of a secret is found as well as the whole.
 *
 * There are libraries that look for many words at once; they keep tens of millions of nodes for a thousand secrets of up to four
 * thousand bytes in sixty forms, and know nothing of pieces.
 */
import { formsOf } from './forms.ts'
import { WINDOW, WindowTable } from './window-table.ts'

export type Hit = {
  /** Index of the secret. */
  secret: number
  form: string
  /** Where in what was looked at, and how many bytes of it agree. */
  at: number
  length: number
}

/** Windows of a form begin so far apart: a piece of `WINDOW + STRIDE - 1` bytes has one in it. */
const STRIDE = 6
/** Bytes of the secret: what agrees by chance is shorter. */
const PIECE = 20
const MOST_HITS = 1000
/** Of bytes; a shorter secret is in other texts by chance. */
export const SHORTEST = 16

/** `least`: so many bytes must agree. */
type Source = { secret: number; form: string; start: number; end: number; least: number }

export class Scanner {
  readonly #corpus: Buffer
  readonly #sources: Source[] = []
  readonly #table: WindowTable

  constructor(secrets: readonly string[]) {
    const parts: Buffer[] = []
    let length = 0
    let windows = 0
    for (const [secret, text] of secrets.entries()) {
      const size = Buffer.byteLength(text)
      if (size < SHORTEST) throw new RangeError(`secret ${secret} is too short`)
      for (const { name, bytes } of formsOf(text)) {
        const least = Math.min(bytes.length, Math.ceil((PIECE * bytes.length) / size))
        this.#sources.push({ secret, form: name, start: length, end: length + bytes.length, least })
        parts.push(bytes)
        length += bytes.length
        windows += Math.ceil(bytes.length / STRIDE) + 1
      }
    }
    this.#corpus = Buffer.concat(parts)
    this.#table = new WindowTable(this.#corpus, windows)
    for (const { secret, start, end } of this.#sources) {
      for (let at = start; at + WINDOW <= end; at += STRIDE) this.#table.add(at, secret)
      if (end - start >= WINDOW) this.#table.add(end - WINDOW, secret)
    }
  }

  /** At most a thousand hits. */
  scan(bytes: Uint8Array): Hit[] {
    const hits: Hit[] = []
    this.#table.search(bytes, (at, window) => {
      const hit = this.#hitAt(bytes, at, window)
      if (!hit) return at + 1
      hits.push(hit)
      return hits.length < MOST_HITS ? hit.at + hit.length : bytes.length
    })
    return hits
  }

  /** What agrees around a window. */
  #hitAt(bytes: Uint8Array, at: number, window: number): Hit | undefined {
    const corpus = this.#corpus
    const { secret, form, start, end, least } = this.#sourceOf(window)
    let before = 0
    while (at > before && window - before > start && bytes[at - before - 1] === corpus[window - before - 1])
      before += 1
    let length = WINDOW
    while (window + length < end && bytes[at + length] === corpus[window + length]) length += 1
    const agreeing = before + length
    if (agreeing < least) return undefined
    return { secret, form, at: at - before, length: agreeing }
  }

  #sourceOf(offset: number): Source {
    let low = 0
    let high = this.#sources.length - 1
    while (low < high) {
      const middle = (low + high + 1) >> 1
      if ((this.#sources[middle]?.start ?? 0) <= offset) low = middle
      else high = middle - 1
    }
    const found = this.#sources[low]
    if (!found) throw new RangeError('no form is there')
    return found
  }
}
