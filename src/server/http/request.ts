/**
 * The URL as it came, before anything decodes it. Ids and names need no escapes, so that whatever would mean
 * something else after decoding (a slash, a dot segment, NUL) is refused here and nowhere else.
 */
import { Problem } from './problems.ts'

const LONGEST_URL = 2_048
/** RFC 3986: what a path or a query may consist of. */
const ALLOWED = /^[A-Za-z0-9\-._~!$&'()*+,;=:@/?%|[\]{}^`"\\<>]*$/
const CONTROL = /[\p{Cc}\u2028\u2029]/u

export type RawUrl = { path: string; search: string }

/** @throws Problem bad_request, not_found, uri_too_long */
export function readRawUrl(url: string): RawUrl {
  if (url.length > LONGEST_URL) throw new Problem('uri_too_long')
  // The form of proxies: `GET http://host/path`, and `*` of OPTIONS.
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

/** No route has such a segment, whatever some proxy would make of it. */
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
