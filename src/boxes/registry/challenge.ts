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
