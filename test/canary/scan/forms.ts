/** The forms in which a secret may turn up where it does not belong. */

/** One piece of text, as bytes. */
export type Form = { name: string; bytes: Buffer }

const HTML = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' } as const
/** Of Go's templates. */
const GO_HTML = { ...HTML, '"': '&#34;' } as const
const ENTITIES = { ...HTML, "'": '&#x27;' } as const

type Encode = (secret: string) => string

/** By name; each is something that a program does to text. */
export const ENCODINGS: Readonly<Record<string, Encode>> = {
  plain: (secret) => secret,
  json: (secret) => JSON.stringify(secret).slice(1, -1),
  'json-go': (secret) => goJson(secret),
  'json-ascii': (secret) => asciiJson(JSON.stringify(secret).slice(1, -1)),
  inspected: (secret) => secret.replaceAll('\\', '\\\\').replaceAll("'", "\\'"),
  url: (secret) => encodeURIComponent(secret),
  'url-lower': (secret) => encodeURIComponent(secret).replace(/%[0-9A-F]{2}/g, (byte) => byte.toLowerCase()),
  form: (secret) => new URLSearchParams({ '': secret }).toString().slice(1),
  html: (secret) => secret.replace(/[&<>"']/g, (char) => HTML[char as keyof typeof HTML]),
  'html-go': (secret) => secret.replace(/[&<>"']/g, (char) => GO_HTML[char as keyof typeof HTML]),
  'html-hex': (secret) => secret.replace(/[&<>"']/g, (char) => ENTITIES[char as keyof typeof HTML]),
  hex: (secret) => Buffer.from(secret).toString('hex'),
  'hex-upper': (secret) => Buffer.from(secret).toString('hex').toUpperCase(),
  // As Node prints a Buffer.
  'hex-spaced': (secret) => (Buffer.from(secret).toString('hex').match(/../g) ?? []).join(' '),
  'base64-0': (secret) => base64(secret, 0, 'base64'),
  'base64-1': (secret) => base64(secret, 1, 'base64'),
  'base64-2': (secret) => base64(secret, 2, 'base64'),
  'base64url-0': (secret) => base64(secret, 0, 'base64url'),
  'base64url-1': (secret) => base64(secret, 1, 'base64url'),
  'base64url-2': (secret) => base64(secret, 2, 'base64url'),
}

/** Each form, and what it is inside a JSON text, such as a line of a log; no two are the same. */
export function formsOf(secret: string): Form[] {
  const seen = new Set<string>()
  const forms: Form[] = []
  const add = (name: string, text: string) => {
    if (seen.has(text)) return
    seen.add(text)
    forms.push({ name, bytes: Buffer.from(text) })
  }
  for (const [name, encode] of Object.entries(ENCODINGS)) {
    const text = encode(secret)
    add(name, text)
    add(`${name} in json`, JSON.stringify(text).slice(1, -1))
    add(`${name} in json-go`, goJson(text))
  }
  return forms
}

/** As Go's encoding/json writes text. */
function goJson(text: string): string {
  return JSON.stringify(text)
    .slice(1, -1)
    .replace(/[<>&\u2028\u2029]/g, escaped)
}

function asciiJson(text: string): string {
  return text.replace(/[\u0080-\uffff]/g, escaped)
}

function escaped(char: string): string {
  return `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`
}

/**
 * The part of base64 that depends on the secret alone, for a text that contains it at `offset` bytes, modulo 3: without the
 * characters at either end that depend on adjacent bytes.
 */
function base64(secret: string, offset: 0 | 1 | 2, alphabet: 'base64' | 'base64url'): string {
  const bytes = Buffer.concat([Buffer.alloc(offset), Buffer.from(secret)])
  const text = bytes.toString(alphabet).replace(/=+$/, '')
  const before = [0, 2, 3][offset] ?? 0
  return text.slice(before, bytes.length % 3 === 0 ? undefined : -1)
}
