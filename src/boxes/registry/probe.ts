import { createHash } from 'node:crypto'
import type { SecureContext } from 'node:tls'
import { DIGEST } from '../../apis/bake.ts'
import { fieldOf, tryParseJson } from '../../lib/json.ts'
import { createTrust } from '../../net/dial.ts'
import { type HttpResponse, httpRequest } from '../../net/http.ts'
import { type Challenge, checkTokenRealm, parseChallenges, readErrorBody } from './challenge.ts'
import { apiHostOf, EgressPolicy } from './egress.ts'
import {
  basicValue,
  connectFailureOf,
  type ImageRequest,
  type ProbeResult,
  type ProbeStep,
  type RegistryLogin,
  type RegistryProbe,
  type RegistryRefusal,
} from './outcome.ts'

/**
 * Asks for an image's manifest as a pull would: a ping, a token if the registry wants one, and the manifest. The
 * password is sent to the registry and to permitted token endpoints only, and is never sent along with a redirect.
 */

export type RegistryProbeOptions = {
  /** Such as `davit/0.1.0`. */
  userAgent: string
  /** PEM of authorities trusted in addition to the known ones. */
  extraCa?: string | undefined
  /** Hosts to which any registry may have a password sent, with a port unless it is 443. */
  realms: readonly string[]
}

export function createRegistryProbe({ userAgent, extraCa, realms }: RegistryProbeOptions): RegistryProbe {
  const client = { trust: createTrust(extraCa, true), userAgent, realms }
  return {
    manifest: (image, login, { signal } = {}) => new Probe(client, image, login, signal).run(),
  }
}

type RegistryRequest = {
  method: 'GET' | 'HEAD'
  step: ProbeStep
  url: URL
  accept: string
  maxBytes: number
  /** Value of `Authorization`; it goes to this URL and no further. */
  authorization?: string | undefined
  /** Whether the login is part of the request. */
  loggedIn: boolean
}

/** A response with the request that got it, after redirects; or the end of the probe. */
type Response = { response: HttpResponse; request: RegistryRequest } | { end: ProbeResult }
/** The value to send, or the end of the probe. */
type Authorization = { value: string | undefined } | { end: ProbeResult }

const MANIFESTS = [
  'application/vnd.oci.image.index.v1+json',
  'application/vnd.oci.image.manifest.v1+json',
  'application/vnd.docker.distribution.manifest.list.v2+json',
  'application/vnd.docker.distribution.manifest.v2+json',
].join(', ')
/** The size up to which the OCI specification has registries accept manifests. */
const MAX_MANIFEST_BYTES = 4 * 1024 * 1024
/** For everything else. */
const MAX_BYTES = 64 * 1024
const DEADLINE_MS = 60_000
const REDIRECTS = new Set([301, 302, 303, 307, 308])
const MAX_REDIRECTS = 3
const MAX_RETRY_AFTER_SECONDS = 86_400
const TOKEN = /^[\x21-\x7e]{1,32768}$/

type Client = { trust: SecureContext; userAgent: string; realms: readonly string[] }

class Probe {
  readonly #client: Client
  readonly #image: ImageRequest
  readonly #login: RegistryLogin | undefined
  readonly #caller: AbortSignal | undefined
  readonly #signal: AbortSignal
  readonly #egress: EgressPolicy

  constructor(
    client: Client,
    image: ImageRequest,
    login: RegistryLogin | undefined,
    caller: AbortSignal | undefined,
  ) {
    this.#client = client
    this.#image = image
    this.#login = login
    this.#caller = caller
    const deadline = AbortSignal.timeout(DEADLINE_MS)
    this.#signal = caller ? AbortSignal.any([caller, deadline]) : deadline
    this.#egress = new EgressPolicy(image.registry, client.realms)
  }

  async run(): Promise<ProbeResult> {
    const result = await this.#pull()
    this.#caller?.throwIfAborted()
    return result
  }

  async #pull(): Promise<ProbeResult> {
    const ping = { ...this.#unauthorized('ping', '/v2/'), maxBytes: MAX_BYTES, accept: 'application/json' }
    const pinged = await this.#request(ping)
    if ('end' in pinged) return pinged.end
    const { response } = pinged
    if (response.status !== 200 && response.status !== 401) return refusalFrom(response, ping)
    const first = response.status === 401 ? await this.#authorize(response, ping) : { value: undefined }
    if ('end' in first) return first.end
    const { repository, reference } = this.#image
    const path = `/v2/${repository}/manifests/${encodeURIComponent(reference)}`
    const manifest = { ...this.#unauthorized('manifest', path), method: 'HEAD' } as const
    const request = this.#authorized(manifest, first.value)
    const found = await this.#request(request)
    // Some registries require a login only for the manifest.
    if (response.status === 200 && 'response' in found && found.response.status === 401) {
      const second = await this.#authorize(found.response, request)
      if ('end' in second) return second.end
      const again = this.#authorized(manifest, second.value)
      return await this.#conclude(await this.#request(again), again)
    }
    return await this.#conclude(found, request)
  }

  /** With the content of the manifest if its head does not tell enough. */
  async #conclude(head: Response, request: RegistryRequest): Promise<ProbeResult> {
    const found = 'response' in head && this.#foundByHead(head.response, request)
    if (found) return found
    if (!needsContent(head)) return this.#read(head, request)
    const get = { ...request, method: 'GET' } as const
    return this.#read(await this.#request(get), get)
  }

  #foundByHead({ status, headers }: HttpResponse, { loggedIn }: RegistryRequest): ProbeResult | undefined {
    const [digest = ''] = [headers['docker-content-digest']].flat()
    if (status !== 200 || !DIGEST.test(digest)) return undefined
    // The content shows which of the two is right.
    if (this.#image.reference.startsWith('sha256:') && this.#image.reference !== digest) return undefined
    return { kind: 'found', digest, mediaType: mediaTypeOf(headers), loggedIn }
  }

  #unauthorized(step: ProbeStep, path: string): RegistryRequest {
    const url = new URL(`https://${apiHostOf(this.#image.registry)}${path}`)
    return { method: 'GET', step, url, accept: MANIFESTS, maxBytes: MAX_MANIFEST_BYTES, loggedIn: false }
  }

  #authorized(request: RegistryRequest, authorization: string | undefined): RegistryRequest {
    return { ...request, authorization, loggedIn: authorization !== undefined && this.#login !== undefined }
  }

  /** Follows redirects, without `Authorization`. */
  async #request(request: RegistryRequest): Promise<Response> {
    let next = request
    for (let hop = 0; ; hop += 1) {
      const outcome = await this.#requestOnce(next)
      if ('end' in outcome) return outcome
      const target = REDIRECTS.has(outcome.response.status)
        ? redirectOf(outcome.response, next.url)
        : undefined
      if (target === undefined || hop >= MAX_REDIRECTS) return outcome
      if (target.protocol !== 'https:') {
        const response = { ...outcome.response, body: Buffer.from('The registry redirects to plain HTTP.') }
        return { end: refusalFrom(response, next) }
      }
      next = { ...next, url: target, authorization: undefined, loggedIn: false }
    }
  }

  async #requestOnce(request: RegistryRequest): Promise<Response> {
    const { url } = request
    try {
      const response = await httpRequest(url, {
        ...this.#client,
        ...request,
        permits: (kind) => this.#egress.permits(kind, url),
        signal: this.#signal,
      })
      this.#egress.recordConnection(response.from, url)
      return { response, request }
    } catch (error) {
      return { end: { kind: 'unreachable', step: request.step, host: url.host, ...connectFailureOf(error) } }
    }
  }

  /** By the first challenge that is known, as tools do. */
  async #authorize(response: HttpResponse, request: RegistryRequest): Promise<Authorization> {
    for (const challenge of challengesOf(response)) {
      if (challenge.scheme === 'basic') return { value: this.#login && basic(this.#login) }
      if (challenge.scheme === 'bearer') return await this.#fetchToken(challenge)
    }
    return { end: refusalFrom(response, request) }
  }

  async #fetchToken({ parameters }: Challenge): Promise<Authorization> {
    const realm = parameters.get('realm') ?? ''
    const realmRefused = (reason: string) =>
      ({ end: { kind: 'realm-refused', realm: printable(realm), reason } }) as const
    const decision = checkTokenRealm({
      realm,
      registry: this.#image.registry,
      apiHost: apiHostOf(this.#image.registry),
      allowed: this.#client.realms,
      withLogin: this.#login !== undefined,
    })
    if (!decision.ok) return realmRefused(decision.reason)
    const request = this.#tokenRequest(decision.url, parameters.get('service'))
    // Redirects are not followed.
    const outcome = await this.#requestOnce(request)
    if ('end' in outcome) {
      const isForbidden = outcome.end.kind === 'unreachable' && outcome.end.failure === 'forbidden-address'
      return isForbidden ? realmRefused('resolves to an address that bakes must not connect to') : outcome
    }
    const { response } = outcome
    if (response.status >= 300 && response.status < 400) return realmRefused('redirects to another location')
    const token = response.status === 200 ? tokenOf(response) : undefined
    return token === undefined ? { end: refusalFrom(response, request) } : { value: `Bearer ${token}` }
  }

  #tokenRequest(realm: URL, service: string | undefined): RegistryRequest {
    const url = new URL(realm)
    if (service !== undefined) url.searchParams.set('service', service)
    url.searchParams.set('scope', `repository:${this.#image.repository}:pull`)
    const login = this.#login
    if (login) url.searchParams.set('account', login.username)
    return {
      method: 'GET',
      step: 'token',
      url,
      accept: 'application/json',
      maxBytes: MAX_BYTES,
      authorization: login && basic(login),
      loggedIn: login !== undefined,
    }
  }

  #read(outcome: Response, request: RegistryRequest): ProbeResult {
    if ('end' in outcome) return outcome.end
    const { response } = outcome
    // A host that was redirected to without the login has not rejected the login.
    if (response.status !== 200) return refusalFrom(response, outcome.request)
    const digest = `sha256:${createHash('sha256').update(response.body).digest('hex')}`
    const { reference } = this.#image
    if (reference.startsWith('sha256:') && reference !== digest) {
      const words = `the registry returned content with the digest ${digest} for ${reference}`
      return { ...refusalFrom(response, request), codes: ['DIGEST_INVALID'], words }
    }
    const mediaType = mediaTypeOf(response.headers)
    return { kind: 'found', digest, mediaType, bytes: response.body, loggedIn: request.loggedIn }
  }
}

function mediaTypeOf(headers: HttpResponse['headers']): string {
  return String(headers['content-type'] ?? '').replace(/;.*$/, '')
}

/**
 * Only a GET has the registry's words, and some servers answer HEAD in a way of their own. It is not sent where the status says enough:
 * to a registry that is overloaded or limits requests, or with a password that was just rejected.
 */
function needsContent(head: Response): boolean {
  if ('end' in head) return head.end.kind === 'unreachable' && head.end.failure === 'protocol'
  const { status } = head.response
  if (status === 401) return !/^Basic /.test(head.request.authorization ?? '')
  return status !== 429 && (status < 500 || status === 501)
}

function challengesOf({ headers }: HttpResponse): Challenge[] {
  return parseChallenges([headers['www-authenticate'] ?? []].flat())
}

function refusalFrom(
  response: HttpResponse,
  { step, loggedIn, authorization = '' }: RegistryRequest,
): RegistryRefusal {
  return {
    kind: 'refused',
    step,
    status: response.status,
    ...readErrorBody(response.body.toString('utf8')),
    loggedIn,
    scheme: /^Basic /.test(authorization) ? 'basic' : /^Bearer /.test(authorization) ? 'bearer' : 'none',
    insufficientScope: challengesOf(response).some(
      ({ parameters }) => parameters.get('error') === 'insufficient_scope',
    ),
    retryAfter: secondsOf(response.headers['retry-after']),
  }
}

function redirectOf({ headers }: HttpResponse, base: URL): URL | undefined {
  const { location } = headers
  return location === undefined ? undefined : (URL.parse(location, base.href) ?? undefined)
}

/** Dates are not read, because they need a clock that both sides agree on. */
function secondsOf(header: string | string[] | undefined): number | undefined {
  const text = [header].flat()[0] ?? ''
  return /^\d{1,9}$/.test(text) ? Math.min(Number(text), MAX_RETRY_AFTER_SECONDS) : undefined
}

function basic(login: RegistryLogin): string {
  return `Basic ${basicValue(login)}`
}

function tokenOf({ body }: HttpResponse): string | undefined {
  const answer = tryParseJson(body.toString('utf8'))
  const token = fieldOf(answer, 'token')
  const candidate = typeof token === 'string' && token !== '' ? token : fieldOf(answer, 'access_token')
  return typeof candidate === 'string' && TOKEN.test(candidate) ? candidate : undefined
}

/** A server's text, fit for a message. */
function printable(realm: string): string {
  return realm
    .slice(0, 300)
    .replace(/[\p{Cc}\p{Zl}\p{Zp}]/gu, '?')
    .toWellFormed()
}
