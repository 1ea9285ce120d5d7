/** One way to one registry: where its API is, what it was asked with, and what it said. */
import type { SecureContext } from 'node:tls'
import { type Challenge, parseChallenges } from './challenge.ts'
import { connectFailureOf } from './connect-failure.ts'
import { readErrorBody } from './error-body.ts'
import { type HttpResponse, httpGet } from './exchange.ts'
import type { ImageRequest, ProbeResult, ProbeStep, RegistryRefusal } from './outcome.ts'
import { EgressPolicy } from './reach.ts'

export type SessionOptions = {
  trust: SecureContext
  userAgent: string
  /** Hosts of the operator, with a port where it is not 443. */
  realms: readonly string[]
}

export type RegistryRequest = {
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
export type RegistryResponse = { answer: HttpResponse; asked: RegistryRequest } | { end: ProbeResult }

const REDIRECTS = new Set([301, 302, 303, 307, 308])
const MAX_REDIRECTS = 3
const MAX_RETRY_AFTER_SECONDS = 86_400

export class RegistrySession {
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

export function challengesOf({ headers }: HttpResponse): Challenge[] {
  return parseChallenges([headers['www-authenticate'] ?? []].flat())
}

/** A refusal as the server has said it. */
export function refusalFrom(
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
