import { KEY_AUDIENCE } from '../../apis/meta.ts'
import { headerValues } from './header-values.ts'
import { Problem } from './problems.ts'

/** A ServiceAccount token is a JWT in compact form. */
const KEY = /^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$/
const LONGEST_KEY = 8 * 1024
const SCHEME = /^(bearer|basic|token|apikey|api-key)(\s|$)/i

const WHAT_A_KEY_IS = `A key is a token of a ServiceAccount for the audience ${KEY_AUDIENCE}, as kubectl create token NAME --audience ${KEY_AUDIENCE} makes it, and ends with its time.`

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

/** @param detail left out where it would tell one wrong key from another: they are all told the same */
export function unauthenticated(detail = WHAT_A_KEY_IS): Problem {
  return new Problem('unauthenticated', {
    detail,
    headers: { 'www-authenticate': 'ApiKey realm="davit"' },
  })
}

/** When the key ends, in milliseconds since 1970, as it says itself: to be believed only of a key that was found valid. */
export function expiryOf(key: string): number {
  const { exp } = claimsOf(key)
  return typeof exp === 'number' ? exp * 1000 : Number.POSITIVE_INFINITY
}

/**
 * Whether the key itself says that it is over, or for others: such a one is refused without asking the API server.
 * Nobody has checked what it says, so that it is never a reason to let anybody in; what says nothing is asked about.
 * @param now milliseconds since 1970
 */
export function isObviouslyInvalid(key: string, now: number): boolean {
  const { aud } = claimsOf(key)
  const isForOthers = aud !== undefined && ![aud].flat().includes(KEY_AUDIENCE)
  return isForOthers || expiryOf(key) <= now
}

/** What the key says of itself; nothing where it is no JWT. */
function claimsOf(key: string): { exp?: unknown; aud?: unknown } {
  try {
    const claims: unknown = JSON.parse(Buffer.from(key.split('.')[1] ?? '', 'base64url').toString('utf8'))
    return typeof claims === 'object' && claims !== null ? claims : {}
  } catch {
    return {}
  }
}
