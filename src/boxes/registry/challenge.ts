/** What servers say when they refuse. Source: OCI distribution specification, "Error Codes". */

export type RefusalWords = { codes: readonly string[]; words: string }

const MOST_ERRORS = 10
const LONGEST_CODE = 64
const LONGEST_WORDS = 500

/** @param text the body, which may be JSON as specified, JSON of another kind, or any text */
export function readErrorBody(text: string): RefusalWords {
  const body = parsed(text)
  const errors = listOf(fieldOf(body, 'errors'))
  const codes = errors.flatMap((error) => {
    const code = fieldOf(error, 'code')
    return typeof code === 'string' && code.length <= LONGEST_CODE ? [code.toUpperCase()] : []
  })
  const said = errors.map((error) => {
    const parts = [fieldOf(error, 'code'), fieldOf(error, 'message')]
    return parts.filter((part) => typeof part === 'string' && part !== '').join(': ')
  })
  const words = said.filter((line) => line !== '').join('; ') || plainWords(body) || text
  return { codes, words: words.replace(/\s+/g, ' ').trim().slice(0, LONGEST_WORDS).toWellFormed() }
}

/** What services for tokens say, each in its own way. */
function plainWords(body: unknown): string | undefined {
  for (const name of ['details', 'message', 'error_description', 'error']) {
    const text = fieldOf(body, name)
    if (typeof text === 'string' && text !== '') return text
  }
  return undefined
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function listOf(value: unknown): unknown[] {
  return Array.isArray(value) ? value.slice(0, MOST_ERRORS) : []
}

function fieldOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined
}

/** Where a registry may send people with their password (its realm), so that its answer cannot invent a receiver. */

export type RealmCheck = {
  /** As the challenge has it. */
  realm: string
  /** Canonical host of the registry, and the one that is asked for it. */
  registry: string
  apiHost: string
  /** Hosts, with a port where it is not 443, that the operator allows besides. */
  allowed: readonly string[]
  /** Whether a password would go there. */
  withLogin: boolean
}

export type RealmDecision = { ok: true; url: URL; isOwn: boolean } | { ok: false; reason: string }

/** Registries of the public whose tokens are known to come from another host. */
const KNOWN: ReadonlyMap<string, string> = new Map([
  ['docker.io', 'auth.docker.io'],
  ['registry.gitlab.com', 'gitlab.com'],
])
const MAX_REALM_LENGTH = 2048

export function checkTokenRealm(question: RealmCheck): RealmDecision {
  const { realm } = question
  // The parser drops tabs and line breaks and takes backslashes for slashes: such a text is not what it seems.
  if (realm.length > MAX_REALM_LENGTH || /[\s\p{Cc}\\]/u.test(realm) || !URL.canParse(realm))
    return no('it is no URL')
  const url = new URL(realm)
  if (url.protocol !== 'https:') return no('it is not https')
  if (url.username !== '' || url.password !== '') return no('it has a user in it')
  if (url.hash !== '') return no('it has a fragment')
  const isOwn = url.host === new URL(`https://${question.apiHost}`).host
  if (isOwn || !question.withLogin || isAllowed(url, question)) return { ok: true, url, isOwn }
  return no(
    `it is on ${url.host}, neither the host and port of the registry nor one that the operator allows (DAVIT_BAKE_REALMS)`,
  )
}

function isAllowed({ host }: URL, { registry, allowed }: RealmCheck): boolean {
  if (KNOWN.get(registry) === host) return true
  return allowed.some((one) => URL.parse(`https://${one}`)?.host === host)
}

function no(reason: string): RealmDecision {
  return { ok: false, reason }
}

/** Challenges of `WWW-Authenticate`. Source: RFC 9110, sections 11.2 to 11.6.1. */

export type Challenge = {
  /** Lower case, as `bearer`. */
  scheme: string
  /** By name in lower case; of a name that comes twice, the first. */
  parameters: ReadonlyMap<string, string>
}

/** Of one header; what comes after is not read. */
const LONGEST = 8192
const MOST = 16

const SPACE = /[ \t]*/y
const TOKEN = /[!#$%&'*+.^_`|~0-9A-Za-z-]+/y
const TOKEN68 = /[A-Za-z0-9._~+/-]+=*(?=[ \t]*(?:,|$))/y
const QUOTED = /"((?:[^"\\]|\\[\s\S])*)"/y

/**
 * All challenges of all headers, in order. A header is read up to what cannot be read in it: nothing of what follows could be told
 * from something that a server made up.
 */
export function parseChallenges(headers: readonly string[]): Challenge[] {
  return headers.flatMap((header) => new Reader(header.slice(0, LONGEST)).challenges()).slice(0, MOST)
}

class Reader {
  readonly #text: string
  #at = 0

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

  /** Undefined where they cannot be read. */
  #parameters(): Map<string, string> | undefined {
    // A scheme has something behind a space, or nothing.
    if (this.#take(/[ \t]+/y) === undefined) return this.#isAtSeparator() ? new Map() : undefined
    if (this.#isAtEnd() || this.#takeToken68()) return new Map()
    return this.#list()
  }

  #list(): Map<string, string> | undefined {
    const found = new Map<string, string>()
    for (let first = true; !this.#isAtEnd(); first = false) {
      const begin = this.#at
      const parameter = this.#parameter()
      if (parameter === undefined) {
        this.#at = begin
        // Of a list, the next challenge; else something that is neither.
        return first && !this.#isAtSeparator() ? undefined : found
      }
      const [name, value] = parameter
      if (!found.has(name)) found.set(name, value)
      if (!this.#isAtSeparator()) return undefined
      this.#skipSeparators()
    }
    return found
  }

  /** `name = value`, or undefined where it is none; then it may be the scheme of the next challenge. */
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

  /** Credentials in one piece, as of `Negotiate`. */
  #takeToken68(): boolean {
    return this.#take(TOKEN68) !== undefined
  }

  #isAtSeparator(): boolean {
    this.#take(SPACE)
    return this.#isAtEnd() || this.#text[this.#at] === ','
  }

  #isAtEnd(): boolean {
    return this.#at >= this.#text.length
  }

  #skipSeparators(): void {
    this.#take(/[ \t,]*/y)
  }

  #take(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at
    const found = pattern.exec(this.#text)?.[0]
    if (found !== undefined) this.#at += found.length
    return found
  }
}
