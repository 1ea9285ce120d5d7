import type { IncomingMessage } from 'node:http'
import { createScanner, visit } from 'jsonc-parser'
import type { z } from 'zod'
import { parseJson } from '../../lib/json.ts'
import { encodeBase32 } from '../../lib/text.ts'
import type { Clock, Random } from '../../lib/time.ts'
import type { InFlightLimiter } from './limits.ts'
import { Problem, type ProblemPlace } from './problems.ts'

/**
 * What a request says in its URL, headers and body, read strictly. The body is read under limits while it streams, parsed as strict
 * JSON, and validated against a schema. Every error says where in the body it is.
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
    detail: 'Idempotency-Key must be 1 to 255 visible ASCII characters without spaces.',
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

export type BodyReader = {
  clock: Pick<Clock, 'after'>
  load: InFlightLimiter
  maxBytes: number
  /** For the whole body. */
  deadlineMs: number
  /** Takes the function that frees the memory of the body, for the end of the request. */
  onReserved(release: () => void): void
}

const WANTED =
  'Send the body as UTF-8 JSON, with the header Content-Type: application/json and no Content-Encoding header. With curl, use --json instead of -d.'
/** `application/json`, with no parameter but UTF-8. */
const JSON_TYPE = /^application\/json[ \t]*(;[ \t]*charset="?utf-8"?[ \t]*)?;?$/i

/**
 * The body as text, undefined if there is none. Refuses a wrong body as early as possible, while it streams.
 * @throws Problem unsupported_media_type, body_too_large, request_timeout, bad_json (no UTF-8), overloaded
 */
export async function readBody(request: IncomingMessage, reader: BodyReader): Promise<string | undefined> {
  const { headers } = request
  const length = Number(headers['content-length'] ?? 0)
  if (headers['transfer-encoding'] === undefined && length === 0) return undefined
  if (length > reader.maxBytes) throw new Problem('body_too_large')
  if (length > 0) checkType(request)
  const chunks = await collect(request, reader, length)
  return chunks.length === 0 ? undefined : decodeUtf8(chunks)
}

/** @throws Problem unsupported_media_type */
function checkType({ headers }: IncomingMessage): void {
  const encoding = headers['content-encoding'] ?? 'identity'
  if (encoding.toLowerCase() !== 'identity' || !JSON_TYPE.test(headers['content-type'] ?? '')) {
    throw new Problem('unsupported_media_type', { detail: WANTED })
  }
}

/** Reserves memory for the announced length, or chunk by chunk without one. */
function collect(request: IncomingMessage, reader: BodyReader, announced: number): Promise<Buffer[]> {
  const { clock, maxBytes, deadlineMs, load, onReserved } = reader
  if (announced > 0) onReserved(load.reserve(announced))
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let bytes = 0
    const stopTimer = clock.after(deadlineMs, () => end(new Problem('request_timeout')))
    const onData = (chunk: Buffer) => {
      bytes += chunk.length
      if (bytes > maxBytes) return end(new Problem('body_too_large'))
      try {
        // A chunked body may be empty, and then needs no type.
        if (announced === 0) checkType(request)
        if (announced === 0) onReserved(load.reserve(chunk.length))
        chunks.push(chunk)
      } catch (error) {
        end(error)
      }
    }
    const onEnd = () => end()
    const onClose = () =>
      end(new Problem('bad_request', { detail: 'The connection closed before the body was complete.' }))
    const end = (error?: unknown) => {
      stopTimer()
      request.off('data', onData).off('end', onEnd).off('close', onClose)
      // Later errors of the connection do not matter.
      request.on('error', () => undefined)
      if (error === undefined) resolve(chunks)
      else reject(error)
    }
    request.on('data', onData).on('end', onEnd).on('close', onClose).on('error', onClose)
  })
}

function decodeUtf8(chunks: readonly Buffer[]): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(Buffer.concat(chunks))
  } catch {
    throw new Problem('bad_json', { detail: 'The body is not valid UTF-8.' })
  }
}

export type JsonText = {
  value: unknown
  /** Text of a member of the outermost object, unchanged. */
  member(name: string): string | undefined
}

/** Deeper than any real data, and far from the stack limit of a recursive reader. */
export const MAX_JSON_DEPTH = 100

/** Kinds of tokens: the library's const enum does not exist at run time. */
const OPEN_BRACE = 1
const CLOSE_BRACE = 2
const OPEN_BRACKET = 3
const CLOSE_BRACKET = 4
const COMMA = 5
const COLON = 6
const STRING = 10
const END = 17

/**
 * JSON.parse makes the value. A walk over the tokens finds what it lets pass (duplicate members, `__proto__`, depth) and the text
 * of each member, so that numbers keep all their digits.
 * @throws Problem bad_json
 */
export function readJson(text: string): JsonText {
  const outline = outlineOf(text)
  const value = parse(text)
  if (outline.fault !== undefined) throw badJson(outline.fault)
  return {
    value,
    member(name) {
      const member = outline.members.get(name)
      return member && text.slice(member.from, member.to)
    },
  }
}

/** For text that is no JSON, only the depth matters; JSON.parse finds the rest. */
function outlineOf(text: string): Outline {
  const outline = new Outline(text)
  const scanner = createScanner(text, true)
  for (let kind = scanner.scan(); kind !== END; kind = scanner.scan()) {
    const at = scanner.getTokenOffset()
    outline.take(kind, at, scanner.getPosition())
    if (kind === STRING) outline.string = { value: scanner.getTokenValue(), at }
  }
  return outline
}

class Outline {
  readonly members = new Map<string, { from: number; to: number }>()
  /** The first error, in words. */
  fault: string | undefined
  /** The last string, which is a name if a colon follows. */
  string: { value: string; at: number } = { value: '', at: 0 }
  readonly #text: string
  /** The names in each open level; undefined for an array. */
  readonly #levels: (Set<string> | undefined)[] = []
  #member: { name: string; from: number; to: number } | undefined

  constructor(text: string) {
    this.#text = text
  }

  take(kind: number, from: number, to: number): void {
    const outermost = this.#levels.length === 1
    if (kind === COLON) this.#name(outermost, to)
    else if (outermost && (kind === COMMA || kind === CLOSE_BRACE)) this.#endMember()
    else if (this.#member) this.#grow(this.#member, from, to)
    if (kind === OPEN_BRACE || kind === OPEN_BRACKET) this.#open(kind, from)
    if (kind === CLOSE_BRACE || kind === CLOSE_BRACKET) this.#levels.pop()
  }

  #open(kind: number, at: number): void {
    if (this.#levels.length === MAX_JSON_DEPTH) {
      const place = lineAndColumn(this.#text, at)
      throw badJson(`The body is nested more than ${MAX_JSON_DEPTH} levels deep (${place}).`)
    }
    this.#levels.push(kind === OPEN_BRACE ? new Set() : undefined)
  }

  #name(outermost: boolean, after: number): void {
    const { value, at } = this.string
    const names = this.#levels.at(-1)
    if (outermost && value === '__proto__')
      this.fault ??= `Forbidden member name __proto__${positionOf(this.#text, at)}.`
    if (names?.has(value)) {
      this.fault ??= `Duplicate member ${JSON.stringify(value.slice(0, 100))}${positionOf(this.#text, at)}.`
    }
    names?.add(value)
    if (outermost) this.#member = { name: value, from: -1, to: after }
  }

  #grow(member: { from: number; to: number }, from: number, to: number): void {
    if (member.from < 0) member.from = from
    member.to = to
  }

  #endMember(): void {
    const member = this.#member
    if (member) this.members.set(member.name, { from: member.from, to: member.to })
    this.#member = undefined
  }
}

function parse(text: string): unknown {
  try {
    return parseJson(text)
  } catch {
    throw badJson(`JSON syntax error${positionOfError(text)}.`)
  }
}

/** JSON.parse reports a position for some errors only, and only in its message. */
function positionOfError(text: string): string {
  let at: number | undefined
  const onError = (_error: number, offset: number) => {
    at ??= offset
  }
  try {
    visit(text, { onError }, { disallowComments: true, allowTrailingComma: false })
  } catch {
    // This parser is recursive, and text that is no JSON may be very deep.
  }
  return at === undefined ? '' : positionOf(text, at)
}

function positionOf(text: string, at: number): string {
  return ` at ${lineAndColumn(text, at)}`
}

function lineAndColumn(text: string, at: number): string {
  const before = text.slice(0, at)
  const lines = before.split('\n')
  return `line ${lines.length}, column ${(lines.at(-1)?.length ?? 0) + 1}`
}

function badJson(detail: string): Problem {
  return new Problem('bad_json', { detail })
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
        : `must be ${issue.values.map((value) => JSON.stringify(value)).join(' or ')}`
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

function bounded(origin: string, words: string, bound: number): string {
  const things = COUNTED[origin]
  return things === undefined
    ? `must be ${words} ${bound}`
    : `must have ${words} ${bound} ${things}${bound === 1 ? '' : 's'}`
}

function escapePointer(part: string): string {
  return part.replaceAll('~', '~0').replaceAll('/', '~1')
}
