import { createHash } from 'node:crypto'
import { loadTrustedCertificates } from '../../net/vetted-connect.ts'
import type { Challenge } from './challenge.ts'
import type { HttpResponse } from './exchange.ts'
import type { ImageRequest, ProbeLimits, ProbeResult, RegistryLogin, RegistryProbe } from './outcome.ts'
import { apiHostOf } from './reach.ts'
import { checkTokenRealm } from './realm.ts'
import {
  challengesOf,
  type RegistryRequest,
  type RegistryResponse,
  RegistrySession,
  refusalFrom,
  type SessionOptions,
} from './registry-session.ts'

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
