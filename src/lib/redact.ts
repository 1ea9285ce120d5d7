/** Keeps secrets out of logs: a wrapper that prints as `[secret]`, and redaction of log fields by name and by form. */

const PLACEHOLDER = '[secret]'
/** Node uses it to print an object. */
const INSPECT = Symbol.for('nodejs.util.inspect.custom')

/** A secret in transit: it prints, logs and serializes as `[secret]`, and is revealed only where it is sent. */
export class SecretText {
  readonly #text: string

  constructor(text: string) {
    this.#text = text
  }

  reveal(): string {
    return this.#text
  }

  toString(): string {
    return PLACEHOLDER
  }

  toJSON(): string {
    return PLACEHOLDER
  }

  [INSPECT](): string {
    return PLACEHOLDER
  }
}

/** Finds `text` where no letter, digit or underscore is next to it: a text of a few characters may be part of any word. */
export function wholeWord(text: string): RegExp {
  // Under the flag u only characters with a meaning may be escaped, and a dash has none outside of a class.
  const escaped = text.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&')
  return new RegExp(`(?<!\\w)${escaped}(?!\\w)`, 'gu')
}

/**
 * Secrets are found by the name of their field at any depth and, in free text, by their form; everything is bounded,
 * so that one odd value cannot fill the log.
 */
const REDACTED = '[redacted]'
const MAX_DEPTH = 8
const MAX_ENTRIES = 100
const MAX_TEXT = 4096

/** `secret`, `clientSecret`, `authorization`, `token`, `apiKey`, `key`, `payload`, `password`, ... in any case. */
const SECRET_NAME = /secret|token|passw(or)?d|authorization|cookie|payload|signature|keys?$|^(pass|body)$/i

/** Signing secrets, authorization schemes, JSON web tokens, passwords in URLs, private keys. */
const SECRET_FORMS: readonly [RegExp, string][] = [
  [/whsec_[\w+/=-]+/g, `whsec_${REDACTED}`],
  [/\b(bearer|basic)\s+[\w.~+/=-]{8,}/gi, `$1 ${REDACTED}`],
  [/\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*/g, REDACTED],
  [/(:\/\/)[^\s/@]+@/g, `$1${REDACTED}@`],
  [/-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(-----END [A-Z ]*PRIVATE KEY-----|$)/g, REDACTED],
]

/** Errors that only a bug raises: their stack is worth the space. */
const PROGRAM_ERRORS = new Set(['TypeError', 'RangeError', 'ReferenceError', 'SyntaxError', 'AssertionError'])

/** A copy of `fields` without secrets. */
export function redactFields(fields: Record<string, unknown>): Record<string, unknown> {
  return redactEntries(fields, 0, new Set())
}

/** `text` without known forms of secrets, at most 4,096 characters. */
export function redactText(text: string): string {
  let clean = text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT)}...` : text
  for (const [form, replacement] of SECRET_FORMS) clean = clean.replace(form, replacement)
  return clean
}

function redactEntries(object: object, depth: number, above: Set<object>): Record<string, unknown> {
  const clean: Record<string, unknown> = {}
  let count = 0
  for (const [name, value] of Object.entries(object)) {
    count += 1
    if (count > MAX_ENTRIES) break
    clean[name] = isSecret(name, value) ? REDACTED : redactValue(value, depth + 1, above)
  }
  return clean
}

/** `namespace/name`, the key of an object in caches and queues. */
const OBJECT_KEY = /^[a-z0-9-]{1,63}\/[a-z0-9.-]{1,253}$/

function isSecret(name: string, value: unknown): boolean {
  if (!SECRET_NAME.test(name)) return false
  // Numbers and flags (`tokens: 3`, `hasSecret: true`) are harmless and useful.
  if (value === undefined || value === null || typeof value === 'number' || typeof value === 'boolean')
    return false
  return !(name === 'key' && typeof value === 'string' && OBJECT_KEY.test(value))
}

function redactValue(value: unknown, depth: number, above: Set<object>): unknown {
  if (typeof value === 'string') return redactText(value)
  if (typeof value === 'bigint') return String(value)
  if (typeof value !== 'object' || value === null) return value
  if (depth > MAX_DEPTH) return '[too deep]'
  if (above.has(value)) return '[circular]'
  if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) return `[${value.byteLength} bytes]`
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? 'Invalid Date' : value.toISOString()
  above.add(value)
  const clean = redactObject(value, depth, above)
  above.delete(value)
  return clean
}

function redactObject(value: object, depth: number, above: Set<object>): unknown {
  if (value instanceof Error) return redactError(value, depth, above)
  if (value instanceof Map) return redactEntries(Object.fromEntries(value), depth, above)
  if (value instanceof Set) return redactList([...value], depth, above)
  if (Array.isArray(value)) return redactList(value, depth, above)
  return redactEntries(value, depth, above)
}

function redactList(values: readonly unknown[], depth: number, above: Set<object>): unknown[] {
  return values.slice(0, MAX_ENTRIES).map((value) => redactValue(value, depth + 1, above))
}

/** Only the fields that classify an error: libraries attach requests and bodies. */
function redactError(error: Error, depth: number, above: Set<object>): Record<string, unknown> {
  const clean: Record<string, unknown> = { type: error.name, message: redactText(error.message) }
  for (const name of ['code', 'kind', 'status'] as const) {
    const value = (error as unknown as Record<string, unknown>)[name]
    if (typeof value === 'string' || typeof value === 'number') clean[name] = value
  }
  if (error.cause !== undefined) clean.cause = redactValue(error.cause, depth + 1, above)
  if (PROGRAM_ERRORS.has(error.name) && error.stack) clean.stack = redactText(error.stack)
  return clean
}
