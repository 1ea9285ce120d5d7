/** What may be shown of the words that come with an error. */

const LONGEST = 400
/** A piece of a secret that is worth hiding: shorter ones tell too little, and are in every sentence. */
const PIECE = 6
const HIDDEN = 'What the provider said is left out, since it repeats what must not be shown.'

/** In this order. */
const CLEANINGS: readonly [RegExp, string][] = [
  // What follows is the request with its headers.
  [/\s*The Canonical String for this request[\s\S]*$/, ''],
  [/\s*Encoded authorization failure message:\s*\S+/g, ''],
  [/\s*[([]\s*(?:Service:[^)\]]*|request[ -]?id:[^)\]]*)[)\]]/gi, ''],
  [/\s*[;,]?\s*request[ -]?id\s*[:=]\s*[\w-]+/gi, ''],
  [/Credential=\S+/g, 'Credential=(left out)'],
  [/\b(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{12,}\b/g, '(left out)'],
  // Session tokens and their kin.
  [/[A-Za-z0-9+/=_-]{100,}/g, '(left out)'],
  [/[\p{Cc}\s]+/gu, ' '],
]

/**
 * One bounded line of `words`, without request ids and credentials; nothing of it, if it repeats a secret or a piece of one in
 * any form that it may have been sent or shown in.
 */
export function fitToShow(words: string, secrets: readonly string[]): string {
  // A service that echoes may do so at any length; what is compared is bounded, and nothing else is shown.
  const seen = words.slice(0, LONGEST * 10)
  if (secrets.some((secret) => repeats(seen, secret))) return HIDDEN
  const clean = CLEANINGS.reduce((text, [pattern, by]) => text.replace(pattern, by), seen).trim()
  const cut = clean.length > LONGEST ? `${clean.slice(0, LONGEST - 1)}…` : clean
  return cut.toWellFormed()
}

/** Whether `text` has a piece of `secret` in it: as it is, or as JSON, a URL, HTML or base64 writes it. */
export function repeats(text: string, secret: string): boolean {
  if (secret === '') return false
  const known = foldedPieces(text)
  return formsOf(secret).some((form) => hasPiece(known, form.toLowerCase(), text.toLowerCase()))
}

function hasPiece(known: ReadonlySet<string>, form: string, text: string): boolean {
  if (form.length < PIECE) return text.includes(form)
  for (let at = 0; at + PIECE <= form.length; at += 1) if (known.has(form.slice(at, at + PIECE))) return true
  return false
}

function foldedPieces(text: string): Set<string> {
  const folded = text.toLowerCase()
  const pieces = new Set<string>()
  for (let at = 0; at + PIECE <= folded.length; at += 1) pieces.add(folded.slice(at, at + PIECE))
  return pieces
}

function formsOf(secret: string): string[] {
  const bytes = Buffer.from(secret, 'utf8')
  const json = JSON.stringify(secret).slice(1, -1)
  return [
    secret,
    json,
    JSON.stringify(json).slice(1, -1),
    encodeURIComponent(secret.toWellFormed()),
    new URLSearchParams({ '': secret }).toString().slice(1),
    secret.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;'),
    bytes.toString('base64').replace(/=+$/, ''),
    bytes.toString('base64url'),
    bytes.toString('hex'),
  ]
}
