/** What may be shown of the words that come with an error. */

const LONGEST = 400
/** A piece of a secret that is worth hiding: shorter ones tell too little, and are in every sentence. */
const PIECE = 6
/** Of one so long, such as a session's token, six letters tell nothing, and some are in every thousandth sentence by chance. */
const LONG = 100
const PIECE_OF_LONG = 12
const HIDDEN = 'What the provider said is left out, since it repeats what must not be shown.'

/** In this order. */
const CLEANINGS: readonly [RegExp, string][] = [
  // First, and each pattern takes one space: of any number, it would begin anew at each place of a long run.
  [/[\p{Cc}\s]+/gu, ' '],
  // What follows is the request with its headers.
  [/ ?The Canonical String for this request.*$/, ''],
  [/ ?Encoded authorization failure message: ?\S+/g, ''],
  [/ ?[([] ?(?:Service:[^)\]]*|request[ -]?id:[^)\]]*)[)\]]/gi, ''],
  [/ ?[;,]? ?request[ -]?id ?[:=] ?[\w-]+/gi, ''],
  [/Credential=\S+/g, 'Credential=(left out)'],
  [/\b(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{12,}\b/g, '(left out)'],
  // Session tokens and their kin.
  [/[A-Za-z0-9+/=_-]{100,}/g, '(left out)'],
]

/**
 * One bounded line of `words`, without request ids and credentials; nothing of it, if it repeats a secret or a piece of one in
 * any form that it may have been sent or shown in.
 */
export function sanitizeMessage(words: string, secrets: readonly string[]): string {
  // A service that echoes may do so at any length; what is compared is bounded, and nothing else is shown.
  const seen = words.slice(0, LONGEST * 10)
  if (secrets.some((secret) => containsSecret(seen, secret))) return HIDDEN
  const clean = CLEANINGS.reduce((text, [pattern, by]) => text.replace(pattern, by), seen).trim()
  const cut = clean.length > LONGEST ? `${clean.slice(0, LONGEST - 1)}…` : clean
  return cut.toWellFormed()
}

/** Whether `text` has a piece of `secret` in it: as it is, or as JSON, a URL, HTML, hexadecimal or base64 writes it. */
export function containsSecret(text: string, secret: string): boolean {
  if (secret === '') return false
  const folded = text.toLowerCase()
  const length = secret.length < LONG ? PIECE : PIECE_OF_LONG
  const known = new Set(piecesOf(folded, length))
  const forms = new Set(formsOf(secret).map((form) => form.toLowerCase()))
  return [...forms].some((form) =>
    form.length < length ? folded.includes(form) : piecesOf(form, length).some((piece) => known.has(piece)),
  )
}

function piecesOf(text: string, length: number): string[] {
  return Array.from({ length: Math.max(0, text.length - length + 1) }, (_, at) => text.slice(at, at + length))
}

function formsOf(secret: string): string[] {
  const bytes = Buffer.from(secret, 'utf8')
  const hex = bytes.toString('hex')
  const written = [
    secret,
    JSON.stringify(secret).slice(1, -1),
    onlyAscii(JSON.stringify(secret).slice(1, -1)),
    encodeURIComponent(secret.toWellFormed()),
    new URLSearchParams({ '': secret }).toString().slice(1),
    html(secret, '&quot;'),
    html(secret, '&#34;'),
    hex,
    (hex.match(/../g) ?? []).join(' '),
    ...[0, 1, 2].flatMap((before) => [base64(bytes, before, 'base64'), base64(bytes, before, 'base64url')]),
  ]
  // Each may be inside of another text, as JSON of most languages or of Go has it.
  return written.flatMap((text) => [text, JSON.stringify(text).slice(1, -1), goJson(text)])
}

function html(text: string, quote: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', quote)
    .replaceAll("'", '&#39;')
}

function onlyAscii(text: string): string {
  return text.replace(/[\u0080-\uffff]/g, escaped)
}

function goJson(text: string): string {
  return JSON.stringify(text)
    .slice(1, -1)
    .replace(/[<>&\u2028\u2029]/g, escaped)
}

function escaped(char: string): string {
  return `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`
}

/** What stands for the secret alone where it is so many bytes, modulo 3, behind the start of what was encoded. */
function base64(secret: Buffer, before: number, alphabet: 'base64' | 'base64url'): string {
  const bytes = Buffer.concat([Buffer.alloc(before), secret])
  const text = bytes.toString(alphabet).replace(/=+$/, '')
  // Characters at either end that depend on what is beside it.
  const from = before === 0 ? 0 : before + 1
  return text.slice(from, bytes.length % 3 === 0 ? undefined : -1)
}
