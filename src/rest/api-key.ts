import { headerValues } from './header-values.ts'
import { Problem } from './problem.ts'

/** A ServiceAccount token is a JWT in compact form. */
const KEY = /^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$/
const LONGEST_KEY = 8 * 1024
const SCHEME = /^(bearer|basic|token|apikey|api-key)(\s|$)/i

/**
 * The API key of a request: the value of Authorization alone (interface §5.1). What cannot be a key is refused
 * here, without asking the API server.
 * @throws Problem unauthenticated, bad_request
 */
export function readApiKey(rawHeaders: readonly string[]): string {
  const [value, another] = headerValues(rawHeaders, 'authorization')
  if (another !== undefined) throw new Problem('bad_request', { detail: 'Authorization was sent twice.' })
  if (value === undefined || value === '') throw unauthenticated('There is no Authorization header.')
  if (SCHEME.test(value)) {
    throw unauthenticated(
      'Send the key alone as the value of Authorization, without a word such as Bearer before it.',
    )
  }
  if (value.length > LONGEST_KEY || !KEY.test(value)) throw unauthenticated()
  return value
}

/** @param detail none where it would tell one wrong key from another */
export function unauthenticated(detail?: string): Problem {
  return new Problem('unauthenticated', {
    ...(detail === undefined ? {} : { detail }),
    headers: { 'www-authenticate': 'ApiKey realm="davit"' },
  })
}

/** When the key ends, in milliseconds since 1970, as it says itself: to be believed only of a key that was found valid. */
export function endOfKey(key: string): number {
  try {
    const claims: unknown = JSON.parse(Buffer.from(key.split('.')[1] ?? '', 'base64url').toString('utf8'))
    const exp = typeof claims === 'object' && claims !== null && 'exp' in claims ? claims.exp : undefined
    return typeof exp === 'number' ? exp * 1000 : Number.POSITIVE_INFINITY
  } catch {
    return Number.POSITIVE_INFINITY
  }
}
