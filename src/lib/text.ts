import { createHash, createHmac } from 'node:crypto'

/** Text: cleaning what came from outside, base32, keyed hashes and ETags. */

const CONTROL = /\p{Cc}/gu
const HALF_CHARACTER_AT_END = /[\ud800-\udbff]$/

/**
 * At most `max` UTF-16 units, without lone surrogates and control characters. The API server replaces lone
 * surrogates, so a status with one would never read back as written; a control character takes six bytes in JSON.
 */
export function sanitizeText(text: string, max: number): string {
  const cut = text.length > max ? text.slice(0, max).replace(HALF_CHARACTER_AT_END, '') : text
  return cut.toWellFormed().replace(CONTROL, ' ')
}

/**
 * A copy of the text. A substring keeps its whole source in memory: an id that is kept for hours would hold the 256
 * KiB that it was cut from.
 */
export function copyString(text: string): string {
  return Buffer.from(text, 'utf8').toString('utf8')
}

/** `1 owner`, `1,200 owners`. */
export function counted(count: number, noun: string, plural = `${noun}s`): string {
  return `${count.toLocaleString('en')} ${count === 1 ? noun : plural}`
}

const LIST = new Intl.ListFormat('en')

/** `url`, `url and description`, `url, ordered, and description`. */
export function listed(words: readonly string[]): string {
  return LIST.format(words)
}

/** With a period at its end, unless it has one: for text from elsewhere in a message. */
export function withPeriod(text: string): string {
  const trimmed = text.trimEnd()
  return /[.!?]$/.test(trimmed) ? trimmed : `${trimmed}.`
}

/** Lower-case Crockford base32: without i, l, o and u; safe in names and in signed content. */
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

/** The first `characters * 5` bits of `bytes`, which must have that many. */
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

/** The encoded number; NaN if `text` has a foreign character. */
export function decodeBase32Number(text: string): number {
  let value = 0
  for (const character of text) {
    const digit = BASE32_ALPHABET.indexOf(character)
    if (digit < 0) return Number.NaN
    value = value * 32 + digit
  }
  return value
}

/** 130 bits. */
const CHARACTERS = 26

/**
 * A separate key per purpose, so that hashes for one are no use for another. Readers of the log cannot test
 * Idempotency-Keys against it.
 */
export function deriveKey(purpose: string, installationKey: Uint8Array): Uint8Array {
  return createHmac('sha256', installationKey).update(purpose).digest()
}

/** 26 characters for `parts` in their order; no other parts give the same. */
export function keyedHash(key: Uint8Array, parts: readonly string[]): string {
  const hmac = createHmac('sha256', key)
  for (const part of parts) hmac.update(`${Buffer.byteLength(part)}:`).update(part)
  return encodeBase32(hmac.digest(), CHARACTERS)
}

/** Of the hash of what a response shows. */
const CONTENT_CHARACTERS = 10

/**
 * ETag of an object (interface S2), with quotes: of UID and generation, and of what else a response shows of it. The generation stands
 * for fields of the spec that no response shows.
 * @param content all that makes the object another one for its reader; absent: no response can show it
 */
export function etagOf(
  { uid, generation = 0 }: { uid: string; generation?: number | undefined },
  content?: unknown,
): string {
  const tag = `${encodeBase32(sha256(uid), 16)}-${generation}`
  if (content === undefined) return `"${tag}"`
  return `"${tag}-${encodeBase32(sha256(JSON.stringify(content)), CONTENT_CHARACTERS)}"`
}

function sha256(text: string): Uint8Array {
  return createHash('sha256').update(text).digest()
}

const TAG = /^"[\x21\x23-\x7e]*"$/

/**
 * Whether If-Match allows a change, by the strong comparison of RFC 9110 §13.1.1: weak tags and malformed lists
 * match nothing.
 * @param ifMatch the header; absent: no condition
 */
export function ifMatchHolds(ifMatch: string | undefined, etag: string): boolean {
  if (ifMatch === undefined || ifMatch.trim() === '*') return true
  const tags = ifMatch.split(',').map((tag) => tag.trim())
  return tags.some((tag) => TAG.test(tag) && tag === etag)
}

/** Whether If-Match fails since a tag in it is weak: Davit sends none, but a proxy that compresses responses weakens them. */
export function isWeakened(ifMatch: string, etag: string): boolean {
  const tags = ifMatch.split(',').map((tag) => tag.trim())
  return tags.includes(`W/${etag}`) || tags.every((tag) => tag.startsWith('W/'))
}

/** With a space instead of each run of control characters and line ends. */
export function oneLine(text: string): string {
  return text.replace(/[\p{Cc}\u2028\u2029]+/gu, ' ').trim()
}
