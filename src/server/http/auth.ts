import { createHash, createHmac } from 'node:crypto'
import type { CallerIdentity, TokenReviewer } from '../../kube/token-review.ts'
import type { Clock } from '../../lib/ports-clock.ts'
import { expiryOf, isObviouslyInvalid, readApiKey, unauthenticated } from './api-key.ts'
import { StickyAllowCache, transientDenial } from './known-good.ts'
import { Semaphore } from './limits.ts'
import { ReviewCache } from './verdict-cache.ts'

/** Who asks. */
export type Caller = {
  /** User name of the ServiceAccount. */
  name: string
  /** Keyed hash of what identifies the key, for limits and logs; never the key. */
  keyId: string
}

/** Whoever sent a valid key. */
export type Client = {
  caller: Caller
  identity: CallerIdentity
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
/** A key that was valid is refused for good when that has lasted for so long; until then it is asked about again and again. */
const BELIEVED_AFTER_MS = 10_000
const ASKED_AGAIN_AFTER_MS = 1_000
const DOUBTED = 'The cluster refuses a key that was valid before; it is asked again.'
const MOST_VERDICTS = 10_000
/** Reviews of keys that were valid before have places of their own: whoever sends what is no key cannot keep them out. */
const REVIEWS_OF_KNOWN = { atOnce: 100, waiting: 0 }
/** Many keys are new together after a start. */
const REVIEWS_OF_STRANGERS = { atOnce: 8, waiting: 100 }
const CREDENTIAL_ID = 'authentication.kubernetes.io/credential-id'

type Verdict = { is: 'valid'; client: Client; endsAt: number } | { is: 'refused' } | { is: 'doubtful' }

/**
 * Who sent a request, as TokenReview says.
 * @throws Problem unauthenticated, bad_request, overloaded, unavailable; ApiError when the API server did not say
 */
export function createAuthenticator({ tokens, clock, hashKey }: AuthenticatorOptions): Authenticator {
  const known = new StickyAllowCache({ clock, most: MOST_VERDICTS, believedAfterMs: BELIEVED_AFTER_MS })
  const ofKnown = new Semaphore(REVIEWS_OF_KNOWN)
  const ofStrangers = new Semaphore(REVIEWS_OF_STRANGERS)
  const verdicts = new ReviewCache<Verdict>({
    clock,
    most: MOST_VERDICTS,
    keepMs: (verdict) => keepMs(verdict, clock.now()),
  })

  const review = async (key: string, keyHash: string): Promise<Verdict> => {
    if (isObviouslyInvalid(key, clock.now())) throw unauthenticated()
    const turns = known.has(keyHash) ? ofKnown : ofStrangers
    const identity = await turns.run(() => tokens.review(key))
    if (!identity) return { is: known.refused(keyHash) ? 'doubtful' : 'refused' }
    known.accepted(keyHash)
    const caller = callerOf(identity, keyHash, hashKey)
    return { is: 'valid', client: { identity, keyHash, caller }, endsAt: expiryOf(key) }
  }

  return async (rawHeaders) => {
    const key = readApiKey(rawHeaders)
    const keyHash = createHash('sha256').update(key).digest('base64')
    const verdict = await verdicts.get(keyHash, () => review(key, keyHash))
    if (verdict.is === 'doubtful') throw transientDenial(DOUBTED)
    if (verdict.is === 'refused' || verdict.endsAt <= clock.now()) throw unauthenticated()
    return verdict.client
  }
}

function keepMs(verdict: Verdict, now: number): number {
  if (verdict.is === 'valid') return Math.min(VALID_FOR_MS, verdict.endsAt - now)
  return verdict.is === 'refused' ? REFUSED_FOR_MS : ASKED_AGAIN_AFTER_MS
}

/** The API server names each token that it makes; of one without a name its own hash is what identifies it. */
function callerOf({ username, extra }: CallerIdentity, keyHash: string, hashKey: Uint8Array): Caller {
  const id = extra[CREDENTIAL_ID]?.[0] ?? keyHash
  return { name: username, keyId: createHmac('sha256', hashKey).update(id).digest('hex').slice(0, 16) }
}
