import type { z } from 'zod'
import { encodeBase32 } from '../../lib/text.ts'
import type { Random } from '../../lib/time.ts'
import { Problem, type ProblemPlace } from './problems.ts'

/**
 * What a request says in its URL and headers, read strictly, and how its query and body are validated against a schema. Every error
 * says where in the body it is.
 */

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
    detail: 'Idempotency-Key must consist of 1 to 255 printable ASCII characters, with no spaces.',
  })
}

/** An entity tag, `*`, or a list of tags (RFC 9110 §13.1.1). */
export const IF_MATCH = /^(\*|((W\/)?"[\x21\x23-\x7e]*")([ \t]*,[ \t]*(W\/)?"[\x21\x23-\x7e]*")*)$/

/** @throws Problem bad_request */
export function readIfMatch(rawHeaders: readonly string[]): string | undefined {
  const value = only(rawHeaders, 'If-Match')
  if (value === undefined || IF_MATCH.test(value)) return value
  throw new Problem('bad_request', { detail: 'If-Match must be an ETag in quotes, or *.' })
}

/** The format is that of the route. @throws Problem bad_request */
export function readLastEventId(rawHeaders: readonly string[]): string | undefined {
  return only(rawHeaders, 'Last-Event-ID') || undefined
}

function only(rawHeaders: readonly string[], name: string): string | undefined {
  const [value, another] = headerValues(rawHeaders, name.toLowerCase())
  if (another !== undefined)
    throw new Problem('bad_request', { detail: `The ${name} header must appear only once.` })
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
  if (!ALLOWED.test(part.replaceAll(' ', '')))
    throw badUrl('The URL contains a character that must be percent-encoded.')
  const decoded = decode(part)
  if (CONTROL.test(decoded)) throw badUrl('The URL must not contain a control character.')
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    throw badUrl('The URL contains an invalid percent-encoded sequence.')
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
  if (search === '') return {}
  const found = new Map<string, string>()
  for (const [name, value] of new URLSearchParams(search)) {
    if (found.has(name))
      throw new Problem('bad_request', { detail: `The parameter ${quoted(name)} must appear only once.` })
    found.set(name, value)
  }
  return Object.fromEntries(found)
}

function quoted(text: string): string {
  return JSON.stringify(text.slice(0, 100))
}

const CHARACTERS = 20
const ENTROPY_BYTES = 13

/** Makes the ids of requests for responses and the log. Ids from clients are not used, since they could be anything. */
export function createRequestIds(random: Pick<Random, 'bytes'>): () => string {
  return () => `req_${encodeBase32(random.bytes(ENTROPY_BYTES), CHARACTERS)}`
}

const MAX_ERRORS = 20
const MAX_MESSAGE = 300
/** A longer name is no field name and might be a misplaced secret, so it is not repeated. */
const MAX_NAME = 30

/** @throws Problem invalid, with a JSON pointer for each error */
export function validateBody<T extends z.ZodType>(schema: T, body: unknown): z.output<T> {
  return validate(schema, body, {
    noun: 'field',
    pointerTo: (path) => path.map((part) => `/${escapePointer(String(part))}`).join(''),
  })
}

/** @throws Problem invalid, with the name of each wrong parameter */
export function validateQuery<T extends z.ZodType>(schema: T, query: unknown): z.output<T> {
  return validate(schema, query, { noun: 'parameter', pointerTo: (path) => String(path[0] ?? '') })
}

type Path = readonly PropertyKey[]

/** What the values are called, and how the place of one is written. */
type Places = { noun: 'field' | 'parameter'; pointerTo: (path: Path) => string }

function validate<T extends z.ZodType>(schema: T, value: unknown, places: Places): z.output<T> {
  const result = schema.safeParse(value, { error: messageOf })
  if (result.success) return result.data
  const errors = result.error.issues.flatMap((issue) => errorsOf(issue, places))
  throw new Problem('invalid', { errors: errors.slice(0, MAX_ERRORS) })
}

function errorsOf(issue: z.core.$ZodIssue, { noun, pointerTo }: Places): ProblemPlace[] {
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.map((key) =>
      key.length > MAX_NAME
        ? { pointer: pointerTo(issue.path), message: `must not contain unknown ${noun}s` }
        : { pointer: pointerTo([...issue.path, key]), message: `is not a recognized ${noun}` },
    )
  }
  return [{ pointer: pointerTo(issue.path), message: issue.message.slice(0, MAX_MESSAGE) }]
}

/** Says what the field must be; undefined keeps the library's message. */
function messageOf(issue: z.core.$ZodRawIssue): string | undefined {
  switch (issue.code) {
    case 'invalid_type':
      return issue.input === undefined ? 'is required' : `must be ${withArticle(issue.expected)}`
    case 'invalid_value':
      return issue.input === undefined
        ? 'is required'
        : `must be ${oneOf(issue.values.map((value) => JSON.stringify(value)))}`
    case 'too_small':
      return bounded(issue.origin, 'at least', Number(issue.minimum))
    case 'too_big':
      return bounded(issue.origin, 'at most', Number(issue.maximum))
    default:
      return undefined
  }
}

function withArticle(type: string): string {
  if (type === 'int' || type === 'int32') return 'a whole number'
  return /^[aeio]/.test(type) ? `an ${type}` : `a ${type}`
}

/** What a bound counts; of other types it bounds the value itself. */
const COUNTED: Readonly<Record<string, string>> = { array: 'item', string: 'character' }

function oneOf(values: readonly string[]): string {
  return values.length > 2 ? `one of ${values.join(', ')}` : values.join(' or ')
}

function bounded(origin: string, words: string, bound: number): string {
  const things = COUNTED[origin]
  return things === undefined
    ? `must be ${words} ${bound}`
    : `must have ${words} ${bound} ${things}${bound === 1 ? '' : 's'}`
}

function escapePointer(part: string): string {
  return part.replaceAll('~', '~0').replaceAll('/', '~1')
}
