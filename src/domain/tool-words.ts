/** What may be shown of the words of a tool: without what controls a terminal, and without secrets in any form. */
import { MAX_TOOL_WORDS } from '../api/bake-result.ts'

const HIDDEN = '[secret]'
/** A secret that is shorter is in every sentence; so it is hidden only where it stands alone. */
const SHORT = 4

/** Sequences of terminals: colours, titles, moves. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: those are what is looked for
const ANSI =
  /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-Z\\-_])|\u009b[0-?]*[ -/]*[@-~]/g

/** The whole text. Line ends and tabs stay. */
export function cleanWords(text: string, secrets: readonly string[]): string {
  const plain = text
    .replace(ANSI, '')
    .replace(/\r\n?/g, '\n')
    .replace(/[^\P{Cc}\n\t]|[\p{Zl}\p{Zp}]|[\u202a-\u202e\u2066-\u2069]/gu, '')
  return withoutSecrets(plain, secrets).toWellFormed()
}

/** At most 2 KB: the end of it, which says why; what is before is in the log. */
export function toolWords(text: string, secrets: readonly string[]): string {
  const words = cleanWords(text, secrets).trim()
  const bytes = Buffer.from(words, 'utf8')
  if (bytes.length <= MAX_TOOL_WORDS) return words
  // Of a character that was cut in two nothing is left.
  const end = bytes.subarray(bytes.length - MAX_TOOL_WORDS + 3).toString('utf8')
  return `…${end.replace(/^\ufffd+/, '')}`
}

function withoutSecrets(text: string, secrets: readonly string[]): string {
  // The longest first, since one form may be a part of another.
  const forms = [...new Set(secrets.flatMap(formsOf))].sort((a, b) => b.length - a.length)
  return forms.reduce((shown, form) => hide(shown, form), text)
}

function hide(text: string, form: string): string {
  if (form.length >= SHORT) return text.replaceAll(form, HIDDEN)
  return text.replace(new RegExp(`(?<![\\w])${escaped(form)}(?![\\w])`, 'gu'), HIDDEN)
}

function escaped(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\/-]/g, '\\$&')
}

/** As programs write it: plain, quoted, in URLs, in base64 at any place of a longer text, and in hexadecimal. */
function formsOf(secret: string): string[] {
  if (secret === '') return []
  const bytes = Buffer.from(secret, 'utf8')
  const json = JSON.stringify(secret).slice(1, -1)
  return [
    secret,
    json,
    JSON.stringify(json).slice(1, -1),
    encodeURIComponent(secret.toWellFormed()),
    encodeURI(secret.toWellFormed()),
    new URLSearchParams({ '': secret }).toString().slice(1),
    secret.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;'),
    bytes.toString('hex'),
    ...[0, 1, 2].flatMap((before) => base64Within(bytes, before)),
  ].filter((form) => form !== '')
}

/** The characters that are the secret's alone where `before` bytes of a group of three are something else's. */
function base64Within(bytes: Buffer, before: number): string[] {
  const padded = Buffer.concat([Buffer.alloc(before), bytes])
  const whole = padded.toString('base64').replace(/=+$/, '')
  const first = Math.ceil((before * 4) / 3)
  const last = padded.length % 3 === 0 ? whole.length : whole.length - 1
  const own = whole.slice(first, last)
  return own.length < SHORT ? [] : [own, own.replaceAll('+', '-').replaceAll('/', '_')]
}
