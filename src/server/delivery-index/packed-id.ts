/** The 26 characters of an id as four words of 32 bits: a third of the memory, and compared as numbers. */
import { BASE32_ALPHABET } from '../../lib/text.ts'

/** Most significant first; they compare as the texts do. */
export type PackedId = Uint32Array

export const PACKED_WORDS = 4

const CHARACTERS = 26
const WORD = 2 ** 32
/** Two bits of the 130 that the characters have are always zero. */
const UNUSED_BITS = 2

const DIGITS = new Int8Array(128).fill(-1)
for (let digit = 0; digit < BASE32_ALPHABET.length; digit += 1)
  DIGITS[BASE32_ALPHABET.charCodeAt(digit)] = digit

/** @returns false when `name` is none of Davit's; `into` is then undefined in parts */
export function packName(name: string, into: PackedId): boolean {
  if (name.length !== CHARACTERS) return false
  let held = 0
  let bits = -UNUSED_BITS
  let word = 0
  for (let at = 0; at < CHARACTERS; at += 1) {
    const digit = DIGITS[name.charCodeAt(at)] ?? -1
    if (digit < 0 || (at === 0 && digit > 7)) return false
    held = held * 32 + digit
    bits += 5
    if (bits < 32) continue
    bits -= 32
    const rest = 2 ** bits
    into[word] = Math.floor(held / rest)
    held %= rest
    word += 1
  }
  return true
}

/** Undefined when `name` is none of Davit's. */
export function packedName(name: string): PackedId | undefined {
  const id = new Uint32Array(PACKED_WORDS)
  return packName(name, id) ? id : undefined
}

/** @param from where the four words begin in `words` */
export function unpackName(words: Uint32Array, from = 0): string {
  let name = ''
  let held = 0
  let bits = UNUSED_BITS
  for (let word = 0; word < PACKED_WORDS; word += 1) {
    held = held * WORD + (words[from + word] ?? 0)
    bits += 32
    while (bits >= 5) {
      bits -= 5
      const rest = 2 ** bits
      name += BASE32_ALPHABET.charAt(Math.floor(held / rest))
      held %= rest
    }
  }
  return name
}
