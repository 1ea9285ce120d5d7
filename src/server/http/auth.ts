import { createHash, createHmac } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { DNS_LABEL, GROUP, KEY_AUDIENCE } from '../../apis/meta.ts'
import type { AccessReviewer, CallerIdentity, TokenReviewer } from '../../kube/reviews.ts'
import type { TokenSignatures } from '../../kube/token-signatures.ts'
import { KeyedSemaphore, Semaphore } from '../../lib/semaphore.ts'
import type { Clock } from '../../lib/time.ts'
import { clientNetwork } from '../../net/client-network.ts'
import { overloaded } from './limits.ts'
import { Problem } from './problems.ts'
import { headerValues } from './request.ts'
import { type Permission, VISIBILITY } from './route.ts'

/**
 * Who sent a request and what they may do. An API key is a ServiceAccount token, judged by TokenReview; RBAC decides with
 * SubjectAccessReview. Decisions are cached for seconds.
 */

/** A ServiceAccount token is a JWT in compact form. */
const KEY = /^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$/
const LONGEST_KEY = 8 * 1024
const SCHEME = /^(bearer|basic|token|apikey|api-key)(\s|$)/i

const WHAT_A_KEY_IS = `The API token must be an unexpired ServiceAccount token for the audience ${KEY_AUDIENCE}. Create one with: kubectl create token NAME --audience ${KEY_AUDIENCE}`

/**
 * The API key of a request: the value of Authorization alone (interface §5.1). Rejects what cannot be a key without asking the
 * API server.
 * @throws Problem unauthenticated, bad_request
 */
export function readApiKey(rawHeaders: readonly string[]): string {
  const [value, another] = headerValues(rawHeaders, 'authorization')
  if (another !== undefined)
    throw new Problem('bad_request', { detail: 'The Authorization header must appear only once.' })
  if (value === undefined || value === '') throw unauthenticated('The Authorization header is missing.')
  if (SCHEME.test(value)) {
    throw unauthenticated(
      'Send only the API token as the value of the Authorization header, without a prefix such as Bearer.',
    )
  }
  if (value.length > LONGEST_KEY || !KEY.test(value)) throw unauthenticated()
  return value
}

/** Without a detail of its own, all wrong keys get the same response. */
function unauthenticated(detail = WHAT_A_KEY_IS): Problem {
  return new Problem('unauthenticated', {
    detail,
    headers: { 'www-authenticate': 'ApiKey realm="davit"' },
  })
}

/** When the key says that it expires, in milliseconds since 1970. Trustworthy only after TokenReview accepted the key. */
export function expiryOf(key: string): number {
  const { exp } = claimsOf(key)
  return typeof exp === 'number' ? exp * 1000 : Number.POSITIVE_INFINITY
}

/** Whether the unverified claims say that the key has expired or is for another audience, so that no review is needed. */
function isObviouslyInvalid(key: string, now: number): boolean {
  const { aud } = claimsOf(key)
  const isForOthers = aud !== undefined && ![aud].flat().includes(KEY_AUDIENCE)
  return isForOthers || expiryOf(key) <= now
}

/** The unverified claims; none if it is no JWT. */
function claimsOf(key: string): { exp?: unknown; aud?: unknown; sub?: unknown } {
  try {
    const claims: unknown = JSON.parse(Buffer.from(key.split('.')[1] ?? '', 'base64url').toString('utf8'))
    return typeof claims === 'object' && claims !== null ? claims : {}
  } catch {
    return {}
  }
}

type MonotonicClock = Pick<Clock, 'monotonic'>

type ReviewCacheOptions<V> = {
  clock: MonotonicClock
  /** Decisions. */
  max: number
  /** How long a decision holds, in milliseconds; 0 or less: not at all. */
  keepMs(verdict: V): number
  /** Whether the decision lets a client in. Others are not asked again ahead of their end. */
  isGood(verdict: V): boolean
}

/** A good decision that is older, in milliseconds, is asked again with its next use, so that no request waits for the API server. */
const RENEW_AFTER_MS = 4_000

/**
 * Caches decisions of the API server for seconds. Concurrent equal questions are asked once; errors are not cached. A good decision
 * that is still in use shortly before its end is asked again, once; until the API server answers, it holds until its end.
 */
class ReviewCache<V> {
  readonly #options: ReviewCacheOptions<V>
  /** `renewFrom` is monotonic; undefined for a decision that was asked again. */
  readonly #known: LRUCache<string, { verdict: V; renewFrom: number | undefined }>
  readonly #asked = new Map<string, Promise<V>>()

  constructor(options: ReviewCacheOptions<V>) {
    const { clock, max } = options
    this.#options = options
    this.#known = new LRUCache({ max, ttlResolution: 0, perf: { now: () => clock.monotonic() + 1 } })
  }

  /** @throws what `ask` throws */
  get(key: string, ask: () => Promise<V>): Promise<V> {
    const known = this.#known.get(key)
    if (!known) return this.#ask(key, ask)
    if (known.renewFrom !== undefined && this.#options.clock.monotonic() >= known.renewFrom) {
      known.renewFrom = undefined
      // After an error it ends when it would have, and the next request asks and waits.
      this.#ask(key, ask).catch(() => undefined)
    }
    return Promise.resolve(known.verdict)
  }

  #ask(key: string, ask: () => Promise<V>): Promise<V> {
    const asked = this.#asked.get(key)
    if (asked) return asked
    const answer = ask()
      .then((verdict) => this.#keep(key, verdict))
      .finally(() => this.#asked.delete(key))
    this.#asked.set(key, answer)
    return answer
  }

  #keep(key: string, verdict: V): V {
    const { clock, keepMs, isGood } = this.#options
    const ttl = keepMs(verdict)
    const renewFrom = isGood(verdict) ? clock.monotonic() + RENEW_AFTER_MS : undefined
    if (ttl > 0) this.#known.set(key, { verdict, renewFrom }, { ttl })
    else this.#known.delete(key)
    return verdict
  }
}

const KNOWN_FOR_MS = 60 * 60_000

/**
 * What the API server has allowed within the last hour. An API server that has just started denies with the same error as for a
 * revoked token or permission, and a client would give up. So a denial of what was allowed before is a 503 until it has lasted.
 */
export class StickyAllowCache {
  readonly #clock: MonotonicClock
  readonly #believedAfterMs: number
  /** `refusedSince` is monotonic. */
  readonly #known: LRUCache<string, { refusedSince: number | undefined }>

  /** @param believedAfterMs how long a denial must last before it counts */
  constructor(clock: MonotonicClock, max: number, believedAfterMs: number) {
    this.#clock = clock
    this.#believedAfterMs = believedAfterMs
    this.#known = new LRUCache({
      max,
      ttl: KNOWN_FOR_MS,
      ttlResolution: 0,
      perf: { now: () => clock.monotonic() + 1 },
    })
  }

  has(name: string): boolean {
    return this.#known.has(name)
  }

  accepted(name: string): void {
    this.#known.set(name, { refusedSince: undefined })
  }

  /** The API server has denied it. @returns whether that may be transient, so that it has to be asked again */
  refused(name: string): boolean {
    const known = this.#known.get(name)
    if (!known) return false
    const now = this.#clock.monotonic()
    known.refusedSince ??= now
    if (now - known.refusedSince < this.#believedAfterMs) return true
    this.#known.delete(name)
    return false
  }
}

export type Caller = {
  /** User name of the ServiceAccount. */
  name: string
  /** Keyed hash of the key's identity, for limits and logs; never the key. */
  keyId: string
}

/** The sender of a valid key. */
export type Client = {
  caller: Caller
  identity: CallerIdentity
  /** Hash of the key, for caches. */
  keyHash: string
}

/** A connection, of the client or of the proxy before it. */
export type Connection = { remoteAddress?: string | undefined }

export type Authenticator = (rawHeaders: readonly string[], connection: Connection) => Promise<Client>

/** The hash of the last accepted key of each connection, since most connections send one key only. */
class KeyHashes {
  readonly #accepted = new WeakMap<Connection, { key: string; hash: string }>()

  of(key: string, connection: Connection): string {
    const accepted = this.#accepted.get(connection)
    return accepted?.key === key ? accepted.hash : createHash('sha256').update(key).digest('base64')
  }

  /** Keys that were not accepted may be long, and each may come once. */
  accepted(key: string, hash: string, connection: Connection): void {
    if (this.#accepted.get(connection)?.hash !== hash) this.#accepted.set(connection, { key, hash })
  }
}

/** Authentication. A revoked key works for `validMs` longer than the ten seconds for which the API server caches its decision. */
const KEYS = {
  max: 10_000,
  validMs: 5_000,
  refusedMs: 5_000,
  doubtfulMs: 1_000,
  believedAfterMs: 10_000,
  doubt:
    'The cluster rejected this API token, which it previously accepted. Davit is checking the token again. Retry the request.',
  /** Known keys have slots of their own, so that a flood of invalid ones cannot lock them out. */
  knownReviews: { atOnce: 100, waiting: { max: 0, full: overloaded } },
  /** New keys that the API server has signed, in turns by namespace. After a start, all keys are new. */
  signedReviews: { atOnce: 32, waiting: { max: 500, full: overloaded } },
  /** New keys that anybody may have made, in turns by address. */
  otherReviews: { atOnce: 8, waiting: { max: 100, full: overloaded } },
}
const CREDENTIAL_ID = 'authentication.kubernetes.io/credential-id'

type Verdict = { is: 'valid'; client: Client; endsAt: number } | { is: 'refused' } | { is: 'doubtful' }

export type AuthenticatorOptions = {
  tokens: TokenReviewer
  signatures: TokenSignatures
  clock: Clock
  /** Hashes keys for limits and logs. */
  hashKey: Uint8Array
}

/**
 * Identifies the sender of a request with TokenReview.
 * @throws Problem unauthenticated, bad_request, overloaded, unavailable; ApiError if the API server did not decide
 */
export function createAuthenticator({
  tokens,
  signatures,
  clock,
  hashKey,
}: AuthenticatorOptions): Authenticator {
  const hashes = new KeyHashes()
  const known = new StickyAllowCache(clock, KEYS.max, KEYS.believedAfterMs)
  const knownReviews = new Semaphore(KEYS.knownReviews)
  const signedReviews = new Semaphore(KEYS.signedReviews)
  const otherReviews = new Semaphore(KEYS.otherReviews)
  const verdicts = new ReviewCache<Verdict>({
    clock,
    max: KEYS.max,
    keepMs(verdict) {
      if (verdict.is === 'valid') return Math.min(KEYS.validMs, verdict.endsAt - clock.now())
      return verdict.is === 'refused' ? KEYS.refusedMs : KEYS.doubtfulMs
    },
    isGood: ({ is }) => is === 'valid',
  })

  /** In a queue where only its like can delay it. */
  const ask = async (key: string, keyHash: string, address: string | undefined) => {
    const work = () => tokens.review(key)
    if (known.has(keyHash)) return await knownReviews.run(work)
    const signature = await signatures.check(key)
    if (signature === 'forged') throw unauthenticated()
    return signature === 'signed'
      ? await signedReviews.run(work, { group: namespaceOf(key) })
      : await otherReviews.run(work, { group: clientNetwork(address) })
  }

  const review = async (key: string, keyHash: string, address: string | undefined): Promise<Verdict> => {
    if (isObviouslyInvalid(key, clock.now())) throw unauthenticated()
    const identity = await ask(key, keyHash, address)
    if (!identity) return { is: known.refused(keyHash) ? 'doubtful' : 'refused' }
    known.accepted(keyHash)
    const caller = callerOf(identity, keyHash, hashKey)
    return { is: 'valid', client: { identity, keyHash, caller }, endsAt: expiryOf(key) }
  }

  return async (rawHeaders, connection) => {
    const key = readApiKey(rawHeaders)
    const keyHash = hashes.of(key, connection)
    const verdict = await verdicts.get(keyHash, () => review(key, keyHash, connection.remoteAddress))
    if (verdict.is === 'doubtful') throw new Problem('unavailable', { detail: KEYS.doubt })
    if (verdict.is === 'refused' || verdict.endsAt <= clock.now()) throw unauthenticated()
    hashes.accepted(key, keyHash, connection)
    return verdict.client
  }
}

/** Of the ServiceAccount, as a signed key has it: `system:serviceaccount:<namespace>:<name>`. */
function namespaceOf(key: string): string {
  const { sub } = claimsOf(key)
  return typeof sub === 'string' ? (sub.split(':')[2] ?? sub) : ''
}

/** The API server names each token that it issues; a token without a name is identified by its hash. */
function callerOf({ username, extra }: CallerIdentity, keyHash: string, hashKey: Uint8Array): Caller {
  const id = extra[CREDENTIAL_ID]?.[0] ?? keyHash
  return { name: username, keyId: createHmac('sha256', hashKey).update(id).digest('hex').slice(0, 16) }
}

export type Authorizer = (client: Client, organization: string, permission: Permission) => Promise<void>

/** Authorization. A permission works for `allowed` ms after it was revoked, and `refused` ms after it was granted at the latest. */
const PERMISSIONS = {
  max: 50_000,
  keepMs: { allowed: 5_000, refused: 2_000, doubtful: 500 },
  believedAfterMs: 3_000,
  doubt:
    'The cluster denied a permission that it previously granted. The request had no effect. Davit is checking the permission again. Retry the request.',
  reviews: { atOnce: 200, waiting: { max: 0, full: overloaded } },
  /** A user of many organizations waits only for itself. */
  reviewsOfUser: { atOnce: 8, waiting: { max: 100, full: overloaded } },
}

/**
 * Lets a client do something in an organization, or throws.
 * @throws Problem `not_found` if the organization does not exist or the client cannot see it, which look the same; `forbidden` if
 * it can see it; `unavailable` if it had the permission a moment ago; `overloaded`. ApiError if the API server did not decide
 */
export function createAuthorizer(
  access: AccessReviewer,
  organizations: { has(name: string): boolean },
  clock: Clock,
): Authorizer {
  const { max, keepMs, believedAfterMs } = PERMISSIONS
  const verdicts = new ReviewCache<keyof typeof keepMs>({
    clock,
    max,
    keepMs: (verdict) => keepMs[verdict],
    isGood: (verdict) => verdict === 'allowed',
  })
  const known = new StickyAllowCache(clock, max, believedAfterMs)
  const reviews = new Semaphore(PERMISSIONS.reviews)
  // By user and not by key: a ServiceAccount can have any number of keys.
  const reviewsOfUser = new KeyedSemaphore(PERMISSIONS.reviewsOfUser)
  const may = ({ keyHash, identity }: Client, namespace: string, permission: Permission) => {
    const { verb, resource, subresource } = permission
    const any = anyPermission(keyHash, namespace)
    const name = [any, verb, resource, subresource ?? ''].join(' ')
    const review = async () => {
      const allowed = await access.allowed(identity, { namespace, group: GROUP, ...permission })
      if (allowed) {
        for (const one of [name, any]) known.accepted(one)
        return 'allowed'
      }
      known.refused(any)
      return known.refused(name) ? 'doubtful' : 'refused'
    }
    return verdicts.get(name, () => reviewsOfUser.run(identity.username, () => reviews.run(review)))
  }

  return async (client, organization, permission) => {
    if (!DNS_LABEL.test(organization)) throw new Problem('not_found')
    // Also for an organization that does not exist, so that the time of the response does not tell.
    const verdict = await may(client, organization, permission)
    const seen =
      verdict === 'refused'
        ? await Promise.all(VISIBILITY.map((one) => may(client, organization, one)))
        : [verdict]
    if (!organizations.has(organization)) throw new Problem('not_found')
    if (verdict === 'allowed') return
    if (seen.includes('allowed')) throw new Problem('forbidden')
    // A client that had any permission here a moment ago must not get `not_found`.
    const isDoubtful = seen.includes('doubtful') || known.refused(anyPermission(client.keyHash, organization))
    throw isDoubtful ? new Problem('unavailable', { detail: PERMISSIONS.doubt }) : new Problem('not_found')
  }
}

/** Name of "any permission of the key in the organization". */
function anyPermission(keyHash: string, organization: string): string {
  return `${keyHash} ${organization}`
}
