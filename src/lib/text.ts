import { createHash, createHmac } from 'node:crypto'

/** Text that came from outside, made fit for a status, a record of the log and a terminal. */

const CONTROL = /\p{Cc}/gu
const HALF_CHARACTER_AT_END = /[\ud800-\udbff]$/

/**
 * At most `max` UTF-16 units of `text`, without half characters and control characters. The API server replaces
 * half characters, so that a status which holds one would never read back as it was written; a control character
 * is six bytes in JSON, which records of the log have no room for.
 */
export function sanitizeText(text: string, max: number): string {
  const cut = text.length > max ? text.slice(0, max).replace(HALF_CHARACTER_AT_END, '') : text
  return cut.toWellFormed().replace(CONTROL, ' ')
}

/**
 * The same text in memory of its own. What is cut out of a text keeps all of that in memory for as long as it
 * lives: an id that is remembered for hours would hold the 256 KiB that it was read from.
 */
export function copyString(text: string): string {
  return Buffer.from(text, 'utf8').toString('utf8')
}

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

/**
 * Keyed hashes under the key of the installation. Whoever reads the log can neither try Idempotency-Keys against it
 * nor guess what was asked for.
 */

/** 130 bits. */
const CHARACTERS = 26

/** A key of its own for one purpose, so that hashes made for one never fit another. */
export function deriveKey(purpose: string, installationKey: Uint8Array): Uint8Array {
  return createHmac('sha256', installationKey).update(purpose).digest()
}

/** 26 characters that stand for `parts`, in their order; no other parts give the same. */
export function keyedHash(key: Uint8Array, parts: readonly string[]): string {
  const hmac = createHmac('sha256', key)
  for (const part of parts) hmac.update(`${Buffer.byteLength(part)}:`).update(part)
  return encodeBase32(hmac.digest(), CHARACTERS)
}

/** ETags of objects: of UID and generation (settled, "REST shapes"), so that counters do not change them. */

/** The value of the header, quotes included. */
export function etagOf({ uid, generation = 0 }: { uid: string; generation?: number | undefined }): string {
  return `"${encodeBase32(createHash('sha256').update(uid).digest(), 16)}-${generation}"`
}

const TAG = /^"[\x21\x23-\x7e]*"$/

/**
 * Whether an object with this ETag may be changed, by the strong comparison of RFC 9110 §13.1.1: a weak tag fits
 * nothing. What is no list of tags fits nothing either.
 * @param ifMatch value of If-Match; absent: nothing was asked for
 */
export function ifMatchHolds(ifMatch: string | undefined, etag: string): boolean {
  if (ifMatch === undefined || ifMatch.trim() === '*') return true
  const tags = ifMatch.split(',').map((tag) => tag.trim())
  return tags.some((tag) => TAG.test(tag) && tag === etag)
}
