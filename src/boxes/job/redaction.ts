/** Makes the output of tools safe to show: without terminal control sequences, and without secrets in any encoding. */
import { MAX_TOOL_WORDS } from '../../apis/bake.ts'
import { SecretText, wholeWord } from '../../lib/redact.ts'
import { basicValue, type RegistryLogin } from '../registry/outcome.ts'

const HIDDEN = '[secret]'
/** Stands for `HIDDEN` until the end: a secret such as `secret` would otherwise be found in it again. From the private use area. */
const MARK = '\ue000'
/** A shorter secret may be part of any word, so it is hidden only as a whole word. */
const SHORT = 4

const [ESC, BEL, CSI] = ['\u001b', '\u0007', '\u009b']
const REST = '[0-?]*[ -/]*[@-~]'
const TITLE = String.raw`\][^${BEL}${ESC}]*(?:${BEL}|${ESC}\\)?`
const SEQUENCE = new RegExp(String.raw`${ESC}(?:\[${REST}|${TITLE}|[@-Z\\-_])|${CSI}${REST}`, 'g')

export function redactSecrets(text: string, secrets: readonly string[]): string {
  // Longest first, since one form may contain another.
  const forms = [...new Set(secrets.flatMap(formsOf))].sort((a, b) => b.length - a.length)
  // Twice, since removing a sequence may remove the first letter of a secret.
  const plain = forms
    .reduce(hide, text.replaceAll(HIDDEN, MARK))
    .replace(SEQUENCE, '')
    .replace(/\r\n?/g, '\n')
    .replace(/[^\P{Cc}\n\t]|[\p{Zl}\p{Zp}]|[\u202a-\u202e\u2066-\u2069]/gu, '')
  return forms.reduce(hide, plain).replaceAll(MARK, HIDDEN).toWellFormed()
}

/** Keeps the last 2 KB, which say why a tool failed. The log has everything. */
export function redactAndShorten(text: string, secrets: readonly string[]): string {
  const redacted = redactSecrets(text, secrets).trim()
  const bytes = Buffer.from(redacted, 'utf8')
  if (bytes.length <= MAX_TOOL_WORDS) return redacted
  // Drops what remains of a character that was cut in two.
  const end = bytes.subarray(bytes.length - MAX_TOOL_WORDS + 3).toString('utf8')
  return `…${end.replace(/^\ufffd+/, '')}`
}

function hide(text: string, form: string): string {
  return text.replaceAll(form.length >= SHORT ? form : wholeWord(form), MARK)
}

/** The encodings that programs use: plain, quoted, in URLs and HTML, in hexadecimal, and in base64 at any offset. */
function formsOf(secret: string): string[] {
  const bytes = Buffer.from(secret, 'utf8')
  const hex = bytes.toString('hex')
  return [
    ...[secret, ...urlForms(secret)].flatMap(quoted),
    ...htmlForms(secret),
    hex,
    hex.toUpperCase(),
    ...[0, 1, 2].flatMap((offset) => base64At(bytes, offset)),
  ].filter((form) => form !== '')
}

/** Quoted once and, as one tool quotes another, twice. Go also escapes the special characters of HTML. */
function quoted(text: string): string[] {
  const inner = JSON.stringify(text).slice(1, -1)
  const forHtml = inner.replace(/[<>&]/g, (character) => `\\u00${character.charCodeAt(0).toString(16)}`)
  return [text, inner, forHtml, ...[inner, forHtml].map((form) => JSON.stringify(form).slice(1, -1))]
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

function htmlForms(secret: string): string[] {
  const html = secret.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
  return [html.replaceAll('"', '&quot;'), html.replaceAll('"', '&#34;').replaceAll("'", '&#39;')]
}

/** The characters that depend on the secret alone if `offset` bytes of a group of three come before it. */
function base64At(bytes: Buffer, offset: number): string[] {
  const padded = Buffer.concat([Buffer.alloc(offset), bytes])
  const encoded = padded.toString('base64').replace(/=+$/, '')
  const first = Math.ceil((offset * 4) / 3)
  const last = padded.length % 3 === 0 ? encoded.length : encoded.length - 1
  const own = encoded.slice(first, last)
  return own.length < SHORT ? [] : [own, own.replaceAll('+', '-').replaceAll('/', '_')]
}

export class SecretRedactor {
  readonly #secrets: SecretText[] = []

  /** Also the value that a login sends: of a short password its base64 has too few characters of its own. */
  addLogin(login: RegistryLogin): void {
    this.#secrets.push(login.password, new SecretText(basicValue(login).replace(/=+$/, '')))
  }

  redact(text: string): string {
    return redactSecrets(text, this.#texts())
  }

  redactForStatus(text: string): string {
    return redactAndShorten(text, this.#texts())
  }

  #texts(): string[] {
    return this.#secrets.map((secret) => secret.reveal())
  }
}
