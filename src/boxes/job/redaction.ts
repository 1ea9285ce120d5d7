import { MAX_TOOL_WORDS } from '../../apis/bake.ts'
import type { SecretText } from '../../lib/redact.ts'

/** What may be shown of the words of a tool: without what controls a terminal, and without secrets in any form. */

const HIDDEN = '[secret]'
/** A secret that is shorter is in every sentence; so it is hidden only where it stands alone. */
const SHORT = 4

const [ESC, BEL, CSI] = ['\u001b', '\u0007', '\u009b']
/** What comes after the beginning of a move or a colour. */
const REST = '[0-?]*[ -/]*[@-~]'
const TITLE = String.raw`\][^${BEL}${ESC}]*(?:${BEL}|${ESC}\\)?`
/** Sequences of terminals: colours, titles, moves. */
const SEQUENCE = new RegExp(String.raw`${ESC}(?:\[${REST}|${TITLE}|[@-Z\\-_])|${CSI}${REST}`, 'g')

/** The whole text. Line ends and tabs stay. */
export function redactSecrets(text: string, secrets: readonly string[]): string {
  // Before as well: a sequence may take the first letter of a secret with it.
  const plain = withoutSecrets(text, secrets)
    .replace(SEQUENCE, '')
    .replace(/\r\n?/g, '\n')
    .replace(/[^\P{Cc}\n\t]|[\p{Zl}\p{Zp}]|[\u202a-\u202e\u2066-\u2069]/gu, '')
  return withoutSecrets(plain, secrets).toWellFormed()
}

/** At most 2 KB: the end of it, which says why; what is before is in the log. */
export function redactAndShorten(text: string, secrets: readonly string[]): string {
  const words = redactSecrets(text, secrets).trim()
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

/** As programs write it: plain, quoted, in URLs and pages, in base64 at any place of a longer text, and in hexadecimal. */
function formsOf(secret: string): string[] {
  const bytes = Buffer.from(secret, 'utf8')
  const hex = bytes.toString('hex')
  return [
    ...[secret, ...urlForms(secret)].flatMap(quoted),
    ...pageForms(secret),
    hex,
    hex.toUpperCase(),
    ...[0, 1, 2].flatMap((before) => base64Within(bytes, before)),
  ].filter((form) => form !== '')
}

/** In quotes, and in quotes within quotes, as a tool writes what another one has written. Go also hides what a page would take for its own. */
function quoted(text: string): string[] {
  const inner = JSON.stringify(text).slice(1, -1)
  const forPages = inner.replace(/[<>&]/g, (one) => `\\u00${one.charCodeAt(0).toString(16)}`)
  return [text, inner, forPages, ...[inner, forPages].map((form) => JSON.stringify(form).slice(1, -1))]
}

function urlForms(secret: string): string[] {
  const text = secret.toWellFormed()
  const forms = [
    encodeURIComponent(text),
    encodeURI(text),
    new URLSearchParams({ '': secret }).toString().slice(1),
  ]
  return forms.flatMap((form) => [form, form.replace(/%../g, (code) => code.toLowerCase())])
}

function pageForms(secret: string): string[] {
  const page = secret.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
  return [page.replaceAll('"', '&quot;'), page.replaceAll('"', '&#34;').replaceAll("'", '&#39;')]
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

/** Every secret that this bake has had in its hands, so that none of them is in anything that it shows. */
export class SecretRedactor {
  readonly #known: SecretText[] = []

  add(secret: SecretText): void {
    this.#known.push(secret)
  }

  /** What may be shown of a text. */
  redact(text: string): string {
    return redactSecrets(text, this.#texts())
  }

  /** So much of it as a status takes. */
  redactForStatus(text: string): string {
    return redactAndShorten(text, this.#texts())
  }

  #texts(): string[] {
    return this.#known.map((secret) => secret.reveal())
  }
}
