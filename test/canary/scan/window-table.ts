/** Windows of a text by their hash, for a search that reads each byte once. */

/** Bytes of a window. */
export const WINDOW = 12

const BASE = 0x01000193
/** BASE to the power of WINDOW: what the oldest byte of a window counts for when the next one comes. */
const OLDEST = Array.from({ length: WINDOW }).reduce<number>((power) => Math.imul(power, BASE), 1)
const FILTER_BITS = 25
const NO_ENDPOINT = -1
/** More than one secret has this window: it is how they are written, and tells nothing. */
const SHARED = -2

export class WindowTable {
  readonly #corpus: Uint8Array
  /** Offset in the corpus, and whose it is, by slot. */
  readonly #offsets: Int32Array
  readonly #owners: Int32Array
  readonly #mask: number
  /** Most bytes that are looked at have no window: one bit says so without a look at the table. */
  readonly #filter = new Uint32Array(2 ** (FILTER_BITS - 5))

  /** @param most windows that will be added */
  constructor(corpus: Uint8Array, most: number) {
    const slots = 2 ** Math.ceil(Math.log2(Math.max(16, most * 2)))
    this.#corpus = corpus
    this.#offsets = new Int32Array(slots)
    this.#owners = new Int32Array(slots).fill(NO_ENDPOINT)
    this.#mask = slots - 1
  }

  add(offset: number, owner: number): void {
    const hash = hashOf(this.#corpus, offset)
    let slot = hash & this.#mask
    while (this.#owners[slot] !== NO_ENDPOINT) {
      if (sameWindow(this.#corpus, this.#offsets[slot] ?? 0, this.#corpus, offset)) {
        if (this.#owners[slot] !== owner) this.#owners[slot] = SHARED
        return
      }
      slot = (slot + 1) & this.#mask
    }
    this.#offsets[slot] = offset
    this.#owners[slot] = owner
    const bit = hash >>> (32 - FILTER_BITS)
    this.#filter[bit >>> 5] = (this.#filter[bit >>> 5] ?? 0) | (1 << (bit & 31))
  }

  /**
   * @param found called with the position of a window in `bytes`, and in the corpus
   * @returns the result of `found`: where to continue
   */
  search(bytes: Uint8Array, found: (at: number, offset: number) => number): void {
    let at = this.#next(bytes, 0)
    while (at !== undefined) {
      const offset = this.#find(bytes, at, hashOf(bytes, at)) ?? 0
      at = this.#next(bytes, Math.max(at + 1, found(at, offset)))
    }
  }

  /** Where the next window is. */
  #next(bytes: Uint8Array, from: number): number | undefined {
    const filter = this.#filter
    const last = bytes.length - WINDOW
    if (from > last) return undefined
    let hash = rollingHash(bytes, from)
    for (let at = from; ; at += 1) {
      const mixed = mix(hash)
      const bit = mixed >>> (32 - FILTER_BITS)
      const maybe = ((filter[bit >>> 5] ?? 0) >>> (bit & 31)) & 1
      if (maybe && this.#find(bytes, at, mixed) !== undefined) return at
      if (at === last) return undefined
      hash = (Math.imul(hash, BASE) + (bytes[at + WINDOW] ?? 0) - Math.imul(bytes[at] ?? 0, OLDEST)) | 0
    }
  }

  #find(bytes: Uint8Array, at: number, hash: number): number | undefined {
    let slot = hash & this.#mask
    while (this.#owners[slot] !== NO_ENDPOINT) {
      const offset = this.#offsets[slot] ?? 0
      if (sameWindow(bytes, at, this.#corpus, offset))
        return this.#owners[slot] === SHARED ? undefined : offset
      slot = (slot + 1) & this.#mask
    }
    return undefined
  }
}

function hashOf(bytes: Uint8Array, at: number): number {
  return mix(rollingHash(bytes, at))
}

function rollingHash(bytes: Uint8Array, at: number): number {
  let hash = 0
  for (let i = at; i < at + WINDOW; i += 1) hash = (Math.imul(hash, BASE) + (bytes[i] ?? 0)) | 0
  return hash
}

/** Spreads what differs in few bits over all of them. */
function mix(hash: number): number {
  const spread = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d)
  return Math.imul(spread ^ (spread >>> 12), 0x297a2d39)
}

function sameWindow(a: Uint8Array, at: number, b: Uint8Array, offset: number): boolean {
  for (let i = 0; i < WINDOW; i += 1) if (a[at + i] !== b[offset + i]) return false
  return true
}
