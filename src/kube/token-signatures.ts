import { compactVerify, createLocalJWKSet, decodeProtectedHeader, errors, type JSONWebKeySet } from 'jose'
import { jsonWebKeySet } from '../apis/core-kinds.ts'
import type { Clock } from '../lib/time.ts'
import type { Transport } from './transport.ts'

/**
 * Who signed a token, checked with the public keys of the API server and without asking it. That a token is signed does not mean that it is
 * valid: TokenReview decides that.
 */

/** `forged`: it names a key of the API server that did not sign it. `unknown`: no key here can tell. */
export type TokenSignature = 'signed' | 'forged' | 'unknown'

export interface TokenSignatures {
  /** Does not throw. */
  check(token: string): Promise<TokenSignature>
}

const PATH = '/openid/v1/jwks'
/** Keys are replaced rarely. A flood of tokens that name unknown keys must not cause more reads. */
const READ_EVERY_MS = 60_000
const RETRY_MS = 10_000

type KnownKeys = { ids: ReadonlySet<string>; resolve: ReturnType<typeof createLocalJWKSet> }

const NO_KEYS: KnownKeys = { ids: new Set(), resolve: createLocalJWKSet({ keys: [] }) }

/** Every ServiceAccount may read the keys, unless the cluster operator has removed that. Without them, everything is unknown. */
export function createTokenSignatures(
  transport: Pick<Transport, 'call'>,
  clock: Pick<Clock, 'monotonic'>,
): TokenSignatures {
  let known = NO_KEYS
  let readAgainAt = Number.NEGATIVE_INFINITY
  let reading: Promise<void> | undefined
  const read = async () => {
    readAgainAt = clock.monotonic() + RETRY_MS
    try {
      known = parseKeys(await transport.call({ verb: 'get', path: PATH, accept: '*/*' }))
      readAgainAt = clock.monotonic() + READ_EVERY_MS
    } catch {
      // The keys of before are better than none.
    } finally {
      reading = undefined
    }
  }
  return {
    async check(token) {
      const keyId = keyIdOf(token)
      if (keyId === undefined) return 'unknown'
      if (!known.ids.has(keyId)) {
        if (clock.monotonic() >= readAgainAt) reading ??= read()
        await reading
      }
      return known.ids.has(keyId) ? await verify(token, known) : 'unknown'
    },
  }
}

function parseKeys(answer: Buffer): KnownKeys {
  const { keys } = jsonWebKeySet.parse(JSON.parse(answer.toString('utf8')))
  return {
    ids: new Set(keys.map(({ kid }) => kid)),
    resolve: createLocalJWKSet({ keys } as JSONWebKeySet),
  }
}

function keyIdOf(token: string): string | undefined {
  try {
    return decodeProtectedHeader(token).kid
  } catch {
    return undefined
  }
}

async function verify(token: string, { resolve }: KnownKeys): Promise<TokenSignature> {
  try {
    await compactVerify(token, resolve)
    return 'signed'
  } catch (error) {
    return error instanceof errors.JWSSignatureVerificationFailed ? 'forged' : 'unknown'
  }
}
