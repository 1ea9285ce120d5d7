import { createHash } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import type { SecureContext } from 'node:tls'
import { Client } from 'undici'
import { loadTrustedCertificates, vettedConnect } from '../../net/dial.ts'
import type { AddressClass } from '../../net/egress-policy.ts'
import { type Challenge, checkTokenRealm, parseChallenges, readErrorBody } from './challenge.ts'
import { apiHostOf, EgressPolicy } from './egress.ts'
import {
  connectFailureOf,
  type ImageRequest,
  type ProbeLimits,
  type ProbeResult,
  type ProbeStep,
  type RegistryLogin,
  type RegistryProbe,
  type RegistryRefusal,
  TooLargeError,
} from './outcome.ts'

export type HttpGetOptions = {
  trust: SecureContext
  userAgent: string
  /** Asked of every address before it is dialled. */
  permits(kind: AddressClass): boolean
  accept: string
  /** Value of `Authorization`. */
  authorization?: string | undefined
  maxBytes: number
  signal: AbortSignal
}

type HttpResponse = {
  status: number
  headers: IncomingHttpHeaders
  body: Buffer
  /** Where it came from. */
  from: AddressClass
}

/** Of what is said beside an error; the rest of it is left. */
const MAX_ERROR_BYTES = 64 * 1024
/** To the head of an answer, and between two pieces of it; the caller's signal is over all of it. */
const IDLE_TIMEOUT_MS = 20_000
const MAX_HEADER_BYTES = 32 * 1024

/** One GET over a connection of its own. @throws Error with a code, also TooLargeError where the body does not end in time */
async function httpGet(url: URL, options: HttpGetOptions): Promise<HttpResponse> {
  let from: AddressClass = 'never'
  const client = new Client(url.origin, {
    maxHeaderSize: MAX_HEADER_BYTES,
    headersTimeout: IDLE_TIMEOUT_MS,
    bodyTimeout: IDLE_TIMEOUT_MS,
    connect: vettedConnect({
      trust: options.trust,
      permits: options.permits,
      onConnected: (kind) => {
        from = kind
      },
    }),
  })
  try {
    const { statusCode, headers, body } = await client.request({
      method: 'GET',
      path: url.pathname + url.search,
      headers: {
        accept: options.accept,
        'user-agent': options.userAgent,
        ...(options.authorization === undefined ? {} : { authorization: options.authorization }),
      },
      signal: options.signal,
    })
    return { status: statusCode, headers, body: await bodyOf(body, statusCode, options.maxBytes), from }
  } finally {
    // Also in the midst of an answer that nobody reads on.
    await client.destroy().catch(() => undefined)
  }
}

async function bodyOf(body: AsyncIterable<Buffer>, status: number, maxBytes: number): Promise<Buffer> {
  const pieces: Buffer[] = []
  let size = 0
  for await (const piece of body) {
    size += piece.length
    pieces.push(piece)
    if (status >= 400 && size >= MAX_ERROR_BYTES) break
    if (size > maxBytes) throw new TooLargeError('the answer is too large')
  }
  return Buffer.concat(pieces)
}

/** One way to one registry: where its API is, what it was asked with, and what it said. */

type SessionOptions = {
  trust: SecureContext
  userAgent: string
  /** Hosts of the operator, with a port where it is not 443. */
  realms: readonly string[]
}

type RegistryRequest = {
  step: ProbeStep
  url: URL
  accept: string
  maxBytes: number
  /** Value of `Authorization`; it goes to this URL and no further. */
  authorization?: string | undefined
  /** Whether the login is in it. */
  loggedIn: boolean
}

/** An answer, and what it answers after redirections; or the end of the probe. */
type RegistryResponse = { answer: HttpResponse; asked: RegistryRequest } | { end: ProbeResult }

const REDIRECTS = new Set([301, 302, 303, 307, 308])
const MAX_REDIRECTS = 3
const MAX_RETRY_AFTER_SECONDS = 86_400

class RegistrySession {
  readonly #options: SessionOptions
  readonly #signal: AbortSignal
  readonly #reach: EgressPolicy

  constructor(image: ImageRequest, options: SessionOptions, signal: AbortSignal) {
    this.#options = options
    this.#signal = signal
    this.#reach = new EgressPolicy(image.registry, options.realms)
  }

  /** @param redirected whether it may be somewhere else, which is then asked without `Authorization` */
  async request(asked: RegistryRequest, redirected: boolean): Promise<RegistryResponse> {
    let next = asked
    for (let hop = 0; ; hop += 1) {
      const outcome = await this.#once(next)
      if ('end' in outcome) return outcome
      const target = REDIRECTS.has(outcome.answer.status) ? targetOf(outcome.answer, next.url) : undefined
      if (target === undefined || !redirected || hop >= MAX_REDIRECTS) return outcome
      if (target.protocol !== 'https:')
        return {
          end: refusalFrom({ ...outcome.answer, body: Buffer.from('It redirects to plain http.') }, next),
        }
      next = { ...next, url: target, authorization: undefined, loggedIn: false }
    }
  }

  async #once(asked: RegistryRequest): Promise<RegistryResponse> {
    const { url } = asked
    try {
      const answer = await httpGet(url, {
        ...this.#options,
        ...asked,
        permits: (kind) => this.#reach.permits(kind, url),
        signal: this.#signal,
      })
      this.#reach.recordConnection(answer.from, url)
      return { answer, asked }
    } catch (error) {
      return { end: { kind: 'unreachable', step: asked.step, host: url.host, ...connectFailureOf(error) } }
    }
  }
}

function challengesOf({ headers }: HttpResponse): Challenge[] {
  return parseChallenges([headers['www-authenticate'] ?? []].flat())
}

/** A refusal as the server has said it. */
function refusalFrom(
  answer: HttpResponse,
  { step, loggedIn, authorization = '' }: RegistryRequest,
): RegistryRefusal {
  const retryAfter = secondsOf(answer.headers['retry-after'])
  return {
    kind: 'refused',
    step,
    status: answer.status,
    ...readErrorBody(answer.body.toString('utf8')),
    loggedIn,
    scheme: /^Basic /.test(authorization) ? 'basic' : /^Bearer /.test(authorization) ? 'bearer' : 'none',
    insufficientScope: challengesOf(answer).some(
      ({ parameters }) => parameters.get('error') === 'insufficient_scope',
    ),
    ...(retryAfter === undefined ? {} : { retryAfter }),
  }
}

function targetOf({ headers }: HttpResponse, base: URL): URL | undefined {
  const { location } = headers
  return location === undefined ? undefined : (URL.parse(location, base.href) ?? undefined)
}

/** As a number of seconds; dates are not read, as they need a clock that both agree on. */
function secondsOf(header: string | string[] | undefined): number | undefined {
  const text = [header].flat()[0] ?? ''
  return /^\d{1,9}$/.test(text) ? Math.min(Number(text), MAX_RETRY_AFTER_SECONDS) : undefined
}

export type RegistryProbeOptions = {
  /** As `davit/0.1.0`. */
  userAgent: string
  /** PEM of authorities that are trusted besides the known ones. */
  extraCa?: string | undefined
  /** Hosts that may be sent a password by any registry, with a port where it is not 443. */
  realms: readonly string[]
}

type Login = RegistryLogin | undefined
/** What to send, or the end of the probe. */
type Authorization = { value: string | undefined } | { end: ProbeResult }

const MANIFESTS = [
  'application/vnd.oci.image.index.v1+json',
  'application/vnd.oci.image.manifest.v1+json',
  'application/vnd.docker.distribution.manifest.list.v2+json',
  'application/vnd.docker.distribution.manifest.v2+json',
].join(', ')
/** Of a manifest: the least that the OCI specification has registries take. */
const MAX_MANIFEST_BYTES = 4 * 1024 * 1024
/** Of everything else. */
const MAX_BYTES = 64 * 1024
const DEADLINE_MS = 60_000
const TOKEN = /^[\x21-\x7e]{1,32768}$/

export function createRegistryProbe(options: RegistryProbeOptions): RegistryProbe {
  const { userAgent, realms } = options
  const session = { trust: loadTrustedCertificates(options.extraCa), userAgent, realms }
  return {
    manifest: (image, login, limits = {}) => new Probe(session, image, login).run(limits),
  }
}

class Probe {
  readonly #options: SessionOptions
  readonly #image: ImageRequest
  readonly #login: Login

  constructor(options: SessionOptions, image: ImageRequest, login: RegistryLogin | undefined) {
    this.#options = options
    this.#image = image
    this.#login = login
  }

  async run({ signal }: ProbeLimits): Promise<ProbeResult> {
    const deadline = AbortSignal.timeout(DEADLINE_MS)
    const either = signal ? AbortSignal.any([signal, deadline]) : deadline
    const session = new RegistrySession(this.#image, this.#options, either)
    const result = await this.#pull(session)
    signal?.throwIfAborted()
    return result
  }

  async #pull(session: RegistrySession): Promise<ProbeResult> {
    const ping: RegistryRequest = {
      ...this.#plain('ping', '/v2/'),
      maxBytes: MAX_BYTES,
      accept: 'application/json',
    }
    const pinged = await session.request(ping, true)
    if ('end' in pinged) return pinged.end
    const { answer } = pinged
    if (answer.status !== 200 && answer.status !== 401) return refusalFrom(answer, ping)
    const first = answer.status === 401 ? await this.#authorize(session, answer, ping) : { value: undefined }
    if ('end' in first) return first.end
    const { repository, reference } = this.#image
    const manifest = this.#plain('manifest', `/v2/${repository}/manifests/${encodeURIComponent(reference)}`)
    const asked = this.#with(manifest, first.value)
    const found = await session.request(asked, true)
    // Some ask for a login only where it matters.
    if (answer.status === 200 && isUnauthorized(found)) {
      const second = await this.#authorize(session, found.answer, asked)
      if ('end' in second) return second.end
      const again = this.#with(manifest, second.value)
      return this.#read(await session.request(again, true), again)
    }
    return this.#read(found, asked)
  }

  #plain(step: RegistryRequest['step'], path: string): RegistryRequest {
    const url = new URL(`https://${apiHostOf(this.#image.registry)}${path}`)
    return { step, url, accept: MANIFESTS, maxBytes: MAX_MANIFEST_BYTES, loggedIn: false }
  }

  #with(asked: RegistryRequest, value: string | undefined): RegistryRequest {
    return { ...asked, authorization: value, loggedIn: value !== undefined && this.#login !== undefined }
  }

  /** By the first challenge that is known, as tools do it. */
  async #authorize(
    session: RegistrySession,
    answer: HttpResponse,
    asked: RegistryRequest,
  ): Promise<Authorization> {
    for (const challenge of challengesOf(answer)) {
      if (challenge.scheme === 'basic') return { value: this.#login && basic(this.#login) }
      if (challenge.scheme === 'bearer') return await this.#token(session, challenge)
    }
    return { end: refusalFrom(answer, asked) }
  }

  async #token(session: RegistrySession, { parameters }: Challenge): Promise<Authorization> {
    const realm = parameters.get('realm') ?? ''
    const verdict = checkTokenRealm({
      realm,
      registry: this.#image.registry,
      apiHost: apiHostOf(this.#image.registry),
      allowed: this.#options.realms,
      withLogin: this.#login !== undefined,
    })
    if (!verdict.ok)
      return { end: { kind: 'realm-refused', realm: printable(realm), reason: verdict.reason } }
    const asked = this.#tokenRequest(verdict.url, parameters.get('service'))
    const outcome = await session.request(asked, false)
    if ('end' in outcome) {
      const { end } = outcome
      if (end.kind !== 'unreachable' || end.failure !== 'forbidden-address') return outcome
      return {
        end: {
          kind: 'realm-refused',
          realm: printable(realm),
          reason: 'it is at an address that no bake connects to',
        },
      }
    }
    const { answer } = outcome
    if (answer.status >= 300 && answer.status < 400)
      return {
        end: { kind: 'realm-refused', realm: printable(realm), reason: 'it redirects to another place' },
      }
    const token = answer.status === 200 ? tokenOf(answer) : undefined
    if (token === undefined) return { end: refusalFrom(answer, asked) }
    return { value: `Bearer ${token}` }
  }

  #tokenRequest(url: URL, service: string | undefined): RegistryRequest {
    const to = new URL(url)
    if (service !== undefined) to.searchParams.set('service', service)
    to.searchParams.set('scope', `repository:${this.#image.repository}:pull`)
    const login = this.#login
    if (login) to.searchParams.set('account', login.username)
    return {
      step: 'token',
      url: to,
      accept: 'application/json',
      maxBytes: MAX_BYTES,
      authorization: login && basic(login),
      loggedIn: login !== undefined,
    }
  }

  #read(outcome: RegistryResponse, asked: RegistryRequest): ProbeResult {
    if ('end' in outcome) return outcome.end
    const { answer } = outcome
    // Who was asked without the login has not refused it.
    if (answer.status !== 200) return refusalFrom(answer, outcome.asked)
    const digest = `sha256:${createHash('sha256').update(answer.body).digest('hex')}`
    const { reference } = this.#image
    if (reference.startsWith('sha256:') && reference !== digest) {
      const words = `the registry has answered ${reference} with something else, of the digest ${digest}`
      return { ...refusalFrom(answer, asked), codes: ['DIGEST_INVALID'], words }
    }
    const mediaType = String(answer.headers['content-type'] ?? '').replace(/;.*$/, '')
    return { kind: 'found', digest, mediaType, bytes: answer.body, loggedIn: asked.loggedIn }
  }
}

function isUnauthorized(
  outcome: RegistryResponse,
): outcome is { answer: HttpResponse; asked: RegistryRequest } {
  return 'answer' in outcome && outcome.answer.status === 401
}

function basic({ username, password }: RegistryLogin): string {
  return `Basic ${Buffer.from(`${username}:${password.reveal()}`, 'utf8').toString('base64')}`
}

function tokenOf({ body }: HttpResponse): string | undefined {
  try {
    const { token, access_token: access } = JSON.parse(body.toString('utf8')) as Record<string, unknown>
    const given = typeof token === 'string' && token !== '' ? token : access
    return typeof given === 'string' && TOKEN.test(given) ? given : undefined
  } catch {
    return undefined
  }
}

/** A server's text, for a message. */
function printable(realm: string): string {
  return realm
    .slice(0, 300)
    .replace(/[\p{Cc}\p{Zl}\p{Zp}]/gu, '?')
    .toWellFormed()
}
