import { headerValues } from './header-values.ts'
import { Problem } from './problems.ts'

/** Visible ASCII. */
export const IDEMPOTENCY_KEY = /^[\x21-\x7e]{1,255}$/

/** The value of Idempotency-Key, where it was sent. @throws Problem bad_request */
export function readIdempotencyKey(rawHeaders: readonly string[]): string | undefined {
  const value = only(rawHeaders, 'Idempotency-Key')
  if (value === undefined || IDEMPOTENCY_KEY.test(value)) return value
  throw new Problem('bad_request', {
    detail: 'Idempotency-Key must be 1 to 255 visible ASCII characters without spaces.',
  })
}

/** An entity tag, `*`, or a list of tags (RFC 9110 §13.1.1). */
export const IF_MATCH = /^(\*|((W\/)?"[\x21\x23-\x7e]*")([ \t]*,[ \t]*(W\/)?"[\x21\x23-\x7e]*")*)$/

/** The value of If-Match, where it was sent. @throws Problem bad_request */
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
