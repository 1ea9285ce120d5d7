import { createHash, createHmac } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { DNS_LABEL, GROUP, KEY_AUDIENCE } from '../../apis/meta.ts'
import type { AccessReviewer, CallerIdentity, TokenReviewer } from '../../kube/reviews.ts'
import type { Clock } from '../../lib/clock.ts'
import { KeyedSemaphore, Semaphore } from '../../lib/semaphore.ts'
import type { LoggedEndpoint } from '../delivery-index/queries.ts'
import type { EndpointId } from '../endpoint-resource.ts'
import { overloaded } from './limits.ts'
import { Problem } from './problems.ts'
import { headerValues } from './request.ts'
import { type Permission, VISIBILITY } from './route.ts'

/** What the HTTP surface needs besides the services behind its routes. */

export interface KnownOrganizations {
  /** Whether a namespace is there and is an organization. */
  has(name: string): boolean
}

export interface EndpointIdentities {
  /** The endpoint that has the id now, not one that is being deleted. @throws RefusedError not_found, unavailable */
  identify(id: EndpointId): Promise<LoggedEndpoint>
}

/** An entry of the catalogue of event types. */
export type EventTypeEntry = {
  name: string
  description: string
  /** JSON Schema 2020-12 of `data`. */
  schema?: Record<string, unknown> | undefined
  /** Of `data`. */
  example?: unknown
  deprecated: boolean
}

export interface EventTypeCatalogue {
  /** All entries, in any order. */
  all(): readonly EventTypeEntry[]
}

/** What is counted of requests, as facts. Label values are from small closed sets. */
export interface RequestMetrics {
  /** One request was answered. `route`: the operation's id, `none` where no route fits. `seconds` until the answer was complete. */
  answered(route: string, status: number, seconds: number): void
}

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
function unauthenticated(detail = WHAT_A_KEY_IS): Problem {
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
function isObviouslyInvalid(key: string, now: number): boolean {
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

export type ReviewCacheOptions<V> = {
  clock: Pick<Clock, 'monotonic'>
  /** Verdicts held. */
  most: number
  /** How long a verdict holds, in milliseconds; 0 or less: not at all. */
  keepMs: (verdict: V) => number
}

/** Verdicts of the API server for some seconds. A question that is asked twice at once is asked once; errors are not kept. */
class ReviewCache<V> {
  readonly #known: LRUCache<string, { verdict: V }>
  readonly #asked = new Map<string, Promise<V>>()
  readonly #options: ReviewCacheOptions<V>

  constructor(options: ReviewCacheOptions<V>) {
    this.#options = options
    this.#known = new LRUCache({
      max: options.most,
      ttlResolution: 0,
      perf: { now: () => options.clock.monotonic() + 1 },
    })
  }

  /** @throws whatever `ask` throws */
  get(key: string, ask: () => Promise<V>): Promise<V> {
    const known = this.#known.get(key)
    if (known) return Promise.resolve(known.verdict)
    const asked = this.#asked.get(key)
    if (asked) return asked
    const answer = ask()
      .then((verdict) => this.#keep(key, verdict))
      .finally(() => this.#asked.delete(key))
    this.#asked.set(key, answer)
    return answer
  }

  #keep(key: string, verdict: V): V {
    const ttl = this.#options.keepMs(verdict)
    if (ttl > 0) this.#known.set(key, { verdict }, { ttl })
    return verdict
  }
}

const KNOWN_FOR_MS = 60 * 60_000

export type StickyAllowCacheOptions = {
  clock: Pick<Clock, 'monotonic'>
  /** Things remembered. */
  most: number
  /** A refusal of what was good before may be a mistake until it has lasted for so long, in milliseconds. */
  believedAfterMs: number
}

/** @param refusedSince monotonic */
type Known = { refusedSince: number | undefined }

/**
 * What the API server has accepted within the last hour. One whose own look-ups fail, as one that has just started, refuses
 * in the same words as if a key were revoked or a right taken away; a client that is told so gives up. So what was good
 * is refused for good only after a while.
 */
export class StickyAllowCache {
  readonly #options: StickyAllowCacheOptions
  readonly #known: LRUCache<string, Known>

  constructor(options: StickyAllowCacheOptions) {
    this.#options = options
    this.#known = new LRUCache({
      max: options.most,
      ttl: KNOWN_FOR_MS,
      ttlResolution: 0,
      perf: { now: () => options.clock.monotonic() + 1 },
    })
  }

  has(name: string): boolean {
    return this.#known.has(name)
  }

  accepted(name: string): void {
    this.#known.set(name, { refusedSince: undefined })
  }

  /** The API server has refused it. @returns whether that may be a mistake, and it is to be asked again */
  refused(name: string): boolean {
    const known = this.#known.get(name)
    if (!known) return false
    const { clock, believedAfterMs } = this.#options
    const now = clock.monotonic()
    known.refusedSince ??= now
    if (now - known.refusedSince < believedAfterMs) return true
    this.#known.delete(name)
    return false
  }
}

/** Of a refusal that may be a mistake: the client comes again. @param detail what was refused */
function transientDenial(detail: string): Problem {
  return new Problem('unavailable', { detail, headers: { 'retry-after': '1' } })
}

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
const REVIEWS_OF_KNOWN = { atOnce: 100, waiting: { max: 0, full: overloaded } }
/** Many keys are new together after a start. */
const REVIEWS_OF_STRANGERS = { atOnce: 8, waiting: { max: 100, full: overloaded } }
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

export type Authorizer = (client: Client, organization: string, permission: Permission) => Promise<void>

export type AuthorizerOptions = { access: AccessReviewer; organizations: KnownOrganizations; clock: Clock }

/** A right that was taken away goes on for so long at most. */
const ALLOWED_FOR_MS = 5_000
/** One that was just given is there after so long at most. */
const REFUSED_FOR_MSOfAuthorize = 2_000
/** One that was there is gone when its refusal has lasted for so long; until then it is asked about again and again. */
const BELIEVED_AFTER_MSOfAuthorize = 3_000
const ASKED_AGAIN_AFTER_MSOfAuthorize = 500
const DOUBTEDOfAuthorize =
  'The cluster refuses what it allowed before; nothing was done, and it is asked again.'
const MOST_VERDICTSOfAuthorize = 50_000
/** Of all users, and of one: whoever asks for many organizations waits for itself. */
const MOST_REVIEWS = { atOnce: 200, waiting: { max: 0, full: overloaded } }
const MOST_REVIEWS_OF_USER = { atOnce: 8, waiting: { max: 100, full: overloaded } }

type VerdictOfAuthorize = 'allowed' | 'refused' | 'doubtful'

const KEEP_MS: Readonly<Record<VerdictOfAuthorize, number>> = {
  allowed: ALLOWED_FOR_MS,
  refused: REFUSED_FOR_MSOfAuthorize,
  doubtful: ASKED_AGAIN_AFTER_MSOfAuthorize,
}

/**
 * Lets a client do something in an organization, or throws.
 * @throws Problem `not_found` where the organization is none or the client cannot see it, which look the same;
 * `forbidden` where it can see it; `unavailable` where it had the right a moment ago; `overloaded`. ApiError when the API
 * server did not say
 */
export function createAuthorizer({ access, organizations, clock }: AuthorizerOptions): Authorizer {
  const verdicts = new ReviewCache<VerdictOfAuthorize>({
    clock,
    most: MOST_VERDICTSOfAuthorize,
    keepMs: (verdict) => KEEP_MS[verdict],
  })
  // Of a facade that has just started, or of a key that it has not seen, it knows nothing, and believes what it is told.
  const known = new StickyAllowCache({
    clock,
    most: MOST_VERDICTSOfAuthorize,
    believedAfterMs: BELIEVED_AFTER_MSOfAuthorize,
  })
  const ofAll = new Semaphore(MOST_REVIEWS)
  // Not of a key: one ServiceAccount can have any number of keys.
  const ofUsers = new KeyedSemaphore(MOST_REVIEWS_OF_USER)
  const may = ({ keyHash, identity }: Client, namespace: string, permission: Permission) => {
    const { verb, resource, subresource } = permission
    const place = placeOf(keyHash, namespace)
    const name = [place, verb, resource, subresource ?? ''].join(' ')
    const review = async (): Promise<VerdictOfAuthorize> => {
      const allowed = await access.allowed(identity, { namespace, group: GROUP, ...permission })
      if (allowed) {
        for (const one of [name, place]) known.accepted(one)
        return 'allowed'
      }
      known.refused(place)
      return known.refused(name) ? 'doubtful' : 'refused'
    }
    return verdicts.get(name, () => ofUsers.run(identity.username, () => ofAll.run(review)))
  }

  return async (client, organization, permission) => {
    if (!DNS_LABEL.test(organization)) throw new Problem('not_found')
    // Asked also of an organization that is none: how long it takes says nothing about what is there.
    const verdict = await may(client, organization, permission)
    const seen =
      verdict === 'refused'
        ? await Promise.all(VISIBILITY.map((one) => may(client, organization, one)))
        : [verdict]
    if (!organizations.has(organization)) throw new Problem('not_found')
    if (verdict === 'allowed') return
    if (seen.includes('allowed')) throw new Problem('forbidden')
    // Whoever had another right here a moment ago is not told that there is nothing.
    const isDoubtful = seen.includes('doubtful') || known.refused(placeOf(client.keyHash, organization))
    throw isDoubtful ? transientDenial(DOUBTEDOfAuthorize) : new Problem('not_found')
  }
}

/** Of all rights that a key has in an organization. */
function placeOf(keyHash: string, organization: string): string {
  return `${keyHash} ${organization}`
}
