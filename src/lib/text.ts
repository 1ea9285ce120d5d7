/** Lower-case Crockford base32: digits and letters without i, l, o and u. Safe in names and in signed content. */
export const BASE32_ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz'

/** The low `characters * 5` bits of a number below 2^50, most significant first. */
export function encodeBase32Number(value: number, characters: number): string {
  let rest = value
  let out = ''
  for (let i = 0; i < characters; i += 1) {
    out = BASE32_ALPHABET.charAt(rest % 32) + out
    rest = Math.floor(rest / 32)
  }
  return out
}

/** The first `characters * 5` bits of `bytes`. `bytes` must hold that many. */
export function encodeBase32(bytes: Uint8Array, characters: number): string {
  let bits = 0
  let held = 0
  let next = 0
  let out = ''
  while (out.length < characters) {
    if (held < 5) {
      bits = ((bits << 8) | (bytes[next] ?? 0)) & 0xfff
      held += 8
      next += 1
    }
    held -= 5
    out += BASE32_ALPHABET.charAt((bits >> held) & 31)
  }
  return out
}

/** The number that `text` encodes, NaN when it has a character that is none of the alphabet. */
export function decodeBase32Number(text: string): number {
  let value = 0
  for (const character of text) {
    const digit = BASE32_ALPHABET.indexOf(character)
    if (digit < 0) return Number.NaN
    value = value * 32 + digit
  }
  return value
}
