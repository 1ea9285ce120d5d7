import { encodeBase32 } from '../../lib/text.ts'
import type { Random } from '../../lib/time.ts'
import { Problem } from './problems.ts'

/** What a request says in its URL and headers, read strictly. */

/**
 * All values of a header; Node's own `headers` keeps only the first of some and joins others.
 * @param rawHeaders name, value, name, value @param name in lower case
 */
export function headerValues(rawHeaders: readonly string[], name: string): string[] {
  const values: string[] = []
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    if (rawHeaders[at]?.toLowerCase() === name) values.push(rawHeaders[at + 1] ?? '')
  }
  return values
}

/** Visible ASCII. */
export const IDEMPOTENCY_KEY = /^[\x21-\x7e]{1,255}$/

/** @throws Problem bad_request */
export function readIdempotencyKey(rawHeaders: readonly string[]): string | undefined {
  const value = only(rawHeaders, 'Idempotency-Key')
  if (value === undefined || IDEMPOTENCY_KEY.test(value)) return value
  throw new Problem('bad_request', {
    detail: 'Idempotency-Key must be 1 to 255 visible ASCII characters without spaces.',
  })
}

/** An entity tag, `*`, or a list of tags (RFC 9110 §13.1.1). */
export const IF_MATCH = /^(\*|((W\/)?"[\x21\x23-\x7e]*")([ \t]*,[ \t]*(W\/)?"[\x21\x23-\x7e]*")*)$/

/** @throws Problem bad_request */
export function readIfMatch(rawHeaders: readonly string[]): string | undefined {
  const value = only(rawHeaders, 'If-Match')
  if (value === undefined || IF_MATCH.test(value)) return value
  throw new Problem('bad_request', { detail: 'If-Match must be an ETag in its quotes, or *.' })
}

function only(rawHeaders: readonly string[], name: string): string | undefined {
  const [value, another] = headerValues(rawHeaders, name.toLowerCase())
  if (another !== undefined) throw new Problem('bad_request', { detail: `${name} was sent twice.` })
  return value
}

const LONGEST_URL = 2_048
/** Characters of a path or a query (RFC 3986). */
const ALLOWED = /^[A-Za-z0-9\-._~!$&'()*+,;=:@/?%|[\]{}^`"\\<>]*$/
const CONTROL = /[\p{Cc}\u2028\u2029]/u

export type RawUrl = { path: string; search: string }

/**
 * The URL before anything decodes it. Ids and names need no escapes, so whatever would mean something else after decoding (a
 * slash, a dot segment, NUL) is refused here.
 * @throws Problem bad_request, not_found, uri_too_long
 */
export function readRawUrl(url: string): RawUrl {
  if (url.length > LONGEST_URL) throw new Problem('uri_too_long')
  // Not the forms `GET http://host/path` of proxies and `OPTIONS *`.
  if (!url.startsWith('/')) throw badUrl('The request target must be a path.')
  const mark = url.indexOf('?')
  const path = mark < 0 ? url : url.slice(0, mark)
  const search = mark < 0 ? '' : url.slice(mark + 1)
  checkCharacters(path)
  checkCharacters(search.replaceAll('+', ' '))
  checkSegments(path)
  return { path, search }
}

function checkCharacters(part: string): void {
  if (!ALLOWED.test(part.replaceAll(' ', ''))) throw badUrl('The URL has a character that must be escaped.')
  const decoded = decode(part)
  if (CONTROL.test(decoded)) throw badUrl('The URL has a control character.')
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    throw badUrl('A percent sign in the URL is not followed by an escape of UTF-8.')
  }
}

/** No route has such a segment, whatever a proxy would make of it. */
function checkSegments(path: string): void {
  const odd = path
    .slice(1)
    .split('/')
    .map((segment) => decodeURIComponent(segment))
    .some((segment) => segment === '.' || segment === '..' || /[/\\]/.test(segment))
  if (odd || path.includes('//')) throw new Problem('not_found')
}

function badUrl(detail: string): Problem {
  return new Problem('bad_request', { detail })
}

/** The parameters of a query; none may be there twice. @param search without the question mark @throws Problem bad_request */
export function readQuery(search: string): Record<string, string> {
  const found = new Map<string, string>()
  for (const [name, value] of new URLSearchParams(search)) {
    if (found.has(name))
      throw new Problem('bad_request', { detail: `The parameter ${quoted(name)} is there twice.` })
    found.set(name, value)
  }
  return Object.fromEntries(found)
}

function quoted(text: string): string {
  return JSON.stringify(text.slice(0, 100))
}

const CHARACTERS = 20
const ENTROPY_BYTES = 13
/** Ids that share one call of the random source, which costs more than the rest. */
const BATCH = 256

/** Makes the ids of requests for responses and the log. Ids from clients are not used, since they could be anything. */
export function createRequestIds(random: Pick<Random, 'bytes'>): () => string {
  let drawn = new Uint8Array()
  let used = 0
  return () => {
    if (used === drawn.length) {
      drawn = Uint8Array.from(random.bytes(ENTROPY_BYTES * BATCH))
      used = 0
    }
    const entropy = drawn.subarray(used, used + ENTROPY_BYTES)
    used += ENTROPY_BYTES
    return `req_${encodeBase32(entropy, CHARACTERS)}`
  }
}
