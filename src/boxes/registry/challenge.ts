/**
 * Reads what a registry sends along with a rejection: error bodies, login challenges, and the token endpoint (realm) to
 * which a challenge wants the password sent.
 */

import { hostOfUrl, urlHostOf } from '../../apis/registry-host.ts'
import { fieldOf, tryParseJson } from '../../lib/json.ts'

const MAX_ERRORS = 10
const MAX_CODE_LENGTH = 64
const MAX_TEXT_LENGTH = 500

/** OCI distribution specification, "Error Codes". @param text the body: JSON as specified, other JSON, or any text */
export function readErrorBody(text: string): { codes: readonly string[]; words: string } {
  const body = tryParseJson(text)
  const list = fieldOf(body, 'errors')
  const errors: unknown[] = Array.isArray(list) ? list.slice(0, MAX_ERRORS) : []
  const codes = errors.flatMap((error) => {
    const code = fieldOf(error, 'code')
    return typeof code === 'string' && code.length <= MAX_CODE_LENGTH ? [code.toUpperCase()] : []
  })
  const lines = errors.map((error) => {
    const parts = [fieldOf(error, 'code'), fieldOf(error, 'message')]
    return parts.filter((part) => typeof part === 'string' && part !== '').join(': ')
  })
  const words = lines.filter((line) => line !== '').join('; ') || plainMessage(body) || text
  return { codes, words: words.replace(/\s+/g, ' ').trim().slice(0, MAX_TEXT_LENGTH).toWellFormed() }
}

/** Token endpoints have no common format. */
function plainMessage(body: unknown): string | undefined {
  for (const name of ['details', 'message', 'error_description', 'error']) {
    const text = fieldOf(body, name)
    if (typeof text === 'string' && text !== '') return text
  }
  return undefined
}

export type RealmCheck = {
  /** As in the challenge. */
  realm: string
  /** Canonical host of the registry. */
  registry: string
  /** The host that serves its API. */
  apiHost: string
  /** Hosts that the operator also allows, with a port unless it is 443. */
  allowed: readonly string[]
  /** Whether a password would be sent there. */
  withLogin: boolean
}

export type RealmDecision = { ok: true; url: URL } | { ok: false; reason: string }

/** Public registries whose tokens are known to come from another host. */
const KNOWN: ReadonlyMap<string, string> = new Map([
  ['docker.io', 'auth.docker.io'],
  ['registry.gitlab.com', 'gitlab.com'],
])
const MAX_REALM_LENGTH = 2048

/** Where the password may go, so that a registry's response cannot make up a receiver. */
export function checkTokenRealm(check: RealmCheck): RealmDecision {
  const { realm } = check
  // The parser drops tabs and line breaks and reads backslashes as slashes: such a text is not what it seems.
  if (realm.length > MAX_REALM_LENGTH || /[\s\p{Cc}\\]/u.test(realm) || !URL.canParse(realm))
    return no('is not valid')
  const url = new URL(realm)
  if (url.protocol !== 'https:') return no('does not use HTTPS')
  if (url.username !== '' || url.password !== '') return no('contains a user name or password')
  if (url.hash !== '') return no('contains a fragment')
  const isOwn = hostOfUrl(url) === hostOfUrl(new URL(`https://${check.apiHost}`))
  if (isOwn || !check.withLogin || isAllowed(url, check)) return { ok: true, url }
  return no(
    `is on a different host or port (${url.host}) than the registry, and the cluster operator has not allowed that host (DAVIT_BAKE_REALMS)`,
  )
}

function isAllowed(url: URL, { registry, allowed }: RealmCheck): boolean {
  const host = hostOfUrl(url)
  if (KNOWN.get(registry) === host) return true
  return allowed.some((entry) => urlHostOf(entry) === host)
}

function no(reason: string): RealmDecision {
  return { ok: false, reason }
}

/** Of `WWW-Authenticate`: RFC 9110, sections 11.2 to 11.6.1. */
export type Challenge = {
  /** Lower case, such as `bearer`. */
  scheme: string
  /** By name in lower case; the first if a name occurs twice. */
  parameters: ReadonlyMap<string, string>
}

/** The rest of a longer header is not read. */
const MAX_HEADER_LENGTH = 8192
const MAX_CHALLENGES = 16

const SPACE = /[ \t]*/y
const TOKEN = /[!#$%&'*+.^_`|~0-9A-Za-z-]+/y
const TOKEN68 = /[A-Za-z0-9._~+/-]+=*(?=[ \t]*(?:,|$))/y
const QUOTED = /"((?:[^"\\]|\\[\s\S])*)"/y

/** All challenges of all headers, in order. A header is read up to its first syntax error, because what follows is ambiguous. */
export function parseChallenges(headers: readonly string[]): Challenge[] {
  return headers
    .flatMap((header) => new Reader(header.slice(0, MAX_HEADER_LENGTH)).challenges())
    .slice(0, MAX_CHALLENGES)
}

class Reader {
  readonly #text: string
  #offset = 0

  constructor(text: string) {
    this.#text = text
  }

  challenges(): Challenge[] {
    const found: Challenge[] = []
    for (;;) {
      this.#skipSeparators()
      const scheme = this.#take(TOKEN)
      if (scheme === undefined) return found
      const parameters = this.#parameters()
      if (parameters === undefined) return found
      found.push({ scheme: scheme.toLowerCase(), parameters })
    }
  }

  /** Undefined if they cannot be read. */
  #parameters(): Map<string, string> | undefined {
    // A scheme is followed by a space and parameters, or by nothing.
    if (this.#take(/[ \t]+/y) === undefined) return this.#isAtSeparator() ? new Map() : undefined
    if (this.#isAtEnd() || this.#takeToken68()) return new Map()
    return this.#list()
  }

  #list(): Map<string, string> | undefined {
    const found = new Map<string, string>()
    for (let first = true; !this.#isAtEnd(); first = false) {
      const begin = this.#offset
      const parameter = this.#parameter()
      if (parameter === undefined) {
        this.#offset = begin
        // After a parameter it is the next challenge; otherwise it is not valid.
        return first && !this.#isAtSeparator() ? undefined : found
      }
      const [name, value] = parameter
      if (!found.has(name)) found.set(name, value)
      if (!this.#isAtSeparator()) return undefined
      this.#skipSeparators()
    }
    return found
  }

  /** `name = value`; undefined if it may be the scheme of the next challenge. */
  #parameter(): [string, string] | undefined {
    const name = this.#take(TOKEN)
    if (name === undefined) return undefined
    this.#take(SPACE)
    if (this.#take(/=/y) === undefined) return undefined
    this.#take(SPACE)
    const value = this.#take(TOKEN) ?? this.#quoted()
    return value === undefined ? undefined : [name.toLowerCase(), value]
  }

  #quoted(): string | undefined {
    return this.#take(QUOTED)
      ?.slice(1, -1)
      .replace(/\\([\s\S])/g, '$1')
  }

  /** Credentials in one piece, such as those of `Negotiate`. */
  #takeToken68(): boolean {
    return this.#take(TOKEN68) !== undefined
  }

  #isAtSeparator(): boolean {
    this.#take(SPACE)
    return this.#isAtEnd() || this.#text[this.#offset] === ','
  }

  #isAtEnd(): boolean {
    return this.#offset >= this.#text.length
  }

  #skipSeparators(): void {
    this.#take(/[ \t,]*/y)
  }

  #take(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#offset
    const found = pattern.exec(this.#text)?.[0]
    if (found !== undefined) this.#offset += found.length
    return found
  }
}
