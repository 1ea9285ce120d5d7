import { createHash, createHmac } from 'node:crypto'
import type { Clock } from '../ports/clock.ts'
import type { Identity, TokenReviewer } from '../ports/token-review.ts'
import { endOfKey, readApiKey, unauthenticated } from './api-key.ts'
import type { Caller } from './route.ts'
import { VerdictCache } from './verdict-cache.ts'

/** Whoever sent a valid key. */
export type Client = {
  caller: Caller
  identity: Identity
  /** Hash of the key, for what is remembered of it. */
  keyHash: string
}

export type Authenticator = (rawHeaders: readonly string[]) => Promise<Client>

export type AuthenticatorOptions = {
  tokens: TokenReviewer
  clock: Clock
  /** Under which keys are hashed for limits and logs. */
  hashKey: Uint8Array
}

/** A key that was revoked goes on for so long at most, beyond the ten seconds for which the API server keeps its own verdict. */
const VALID_FOR_MS = 5_000
/** One that is not valid will hardly become so. */
const REFUSED_FOR_MS = 5_000
const MOST_KEYS = 10_000
const MOST_REVIEWS = 100
const CREDENTIAL_ID = 'authentication.kubernetes.io/credential-id'

type Verdict = { client: Client; endsAt: number } | { client?: undefined }

/**
 * Who sent a request, as TokenReview says.
 * @throws Problem unauthenticated, bad_request, overloaded; ApiError when the API server did not say
 */
export function createAuthenticator({ tokens, clock, hashKey }: AuthenticatorOptions): Authenticator {
  const verdicts = new VerdictCache<Verdict>({
    clock,
    most: MOST_KEYS,
    mostAsked: MOST_REVIEWS,
    keepMs: (verdict) =>
      verdict.client ? Math.min(VALID_FOR_MS, verdict.endsAt - clock.now()) : REFUSED_FOR_MS,
  })
  return async (rawHeaders) => {
    const key = readApiKey(rawHeaders)
    const keyHash = createHash('sha256').update(key).digest('base64')
    const verdict = await verdicts.get(keyHash, async () => {
      const identity = await tokens.review(key)
      if (!identity) return {}
      return {
        client: { identity, keyHash, caller: callerOf(identity, keyHash, hashKey) },
        endsAt: endOfKey(key),
      }
    })
    if (!verdict.client || verdict.endsAt <= clock.now()) throw unauthenticated()
    return verdict.client
  }
}

/** The API server names each token that it makes; of one without a name its own hash is what identifies it. */
function callerOf({ username, extra }: Identity, keyHash: string, hashKey: Uint8Array): Caller {
  const id = extra[CREDENTIAL_ID]?.[0] ?? keyHash
  return { name: username, keyId: createHmac('sha256', hashKey).update(id).digest('hex').slice(0, 16) }
}
