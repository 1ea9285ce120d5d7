import { visit } from 'jsonc-parser'
import { parseJson } from './json.ts'

/**
 * JSON from clients, read strictly. JSON.parse makes the value. A walk over the text finds what it lets pass (duplicate members, depth,
 * a forbidden name) and the text of each member, so that numbers keep all their digits.
 */

export type StrictJson = {
  value: unknown
  /** Text of a member of the outermost object, unchanged. */
  member(name: string): string | undefined
}

/** The first error. `what` is a noun, or follows "is" if it is about depth; `place` is a line and a column, empty if not known. */
export type JsonFault = { kind: 'syntax' | 'name' | 'depth'; what: string; place: string }

export type StrictJsonRules = {
  maxDepth: number
  /** A name that the outermost object must not have. */
  forbidden?: string
}

/** Deeper than any real data, and far from the stack limit of a recursive reader. */
export const MAX_JSON_DEPTH = 100

/** @returns the first fault, if there is one */
export function readStrictJson(
  text: string,
  rules: StrictJsonRules,
): { json: StrictJson; fault?: undefined } | { json?: undefined; fault: JsonFault } {
  const { members, deep, fault } = outlineOf(text, rules)
  if (deep !== undefined) return { fault: deep }
  let value: unknown
  try {
    value = parseJson(text)
  } catch {
    return { fault: { kind: 'syntax', what: 'JSON syntax error', place: placeOfError(text) } }
  }
  if (fault !== undefined) return { fault }
  return { json: { value, member: (name) => textOf(text, members.get(name)) } }
}

/**
 * The text of a member in each element of an array, unchanged; undefined for elements without it.
 * @param text a JSON array of objects, as `readStrictJson` has found it
 */
export function elementMembers(text: string, name: string): (string | undefined)[] {
  const found: (string | undefined)[] = []
  walk(text, {
    depth: 2,
    opened: (depth) => {
      if (depth === 2) found.push(undefined)
      return true
    },
    member: (member, span) => {
      if (member === name) found[found.length - 1] = textOf(text, span)
    },
  })
  return found
}

type Span = { from: number; to: number }

function textOf(text: string, span: Span | undefined): string | undefined {
  return span && text.slice(span.from, span.to)
}

/** @property deep where it is nested too deeply; nothing behind that was read @property fault the first other error */
type Outline = {
  members: ReadonlyMap<string, Span>
  deep: JsonFault | undefined
  fault: JsonFault | undefined
}

function outlineOf(text: string, { maxDepth, forbidden }: StrictJsonRules): Outline {
  const members = new Map<string, Span>()
  /** The names in each open object, by depth. */
  const names: (Set<string> | undefined)[] = []
  let deep: JsonFault | undefined
  let fault: JsonFault | undefined
  const found = (what: string, at: number) => {
    fault ??= { kind: 'name', what, place: placeOf(text, at) }
  }
  walk(text, {
    depth: 1,
    opened: (depth, at) => {
      names[depth] = undefined
      if (depth <= maxDepth) return true
      deep = { kind: 'depth', what: `nested more than ${maxDepth} levels deep`, place: placeOf(text, at) }
      return false
    },
    named: (name, depth, at) => {
      if (depth === 1 && name === forbidden) found(`forbidden member name ${name}`, at)
      const known = names[depth] ?? new Set()
      if (known.has(name)) found(`duplicate member ${JSON.stringify(name.slice(0, 100))}`, at)
      names[depth] = known.add(name)
    },
    member: (name, span) => void members.set(name, span),
  })
  return { members, deep, fault }
}

type Visitor = {
  /** Of the objects whose members are reported; that of the outermost is 1. */
  depth: number
  /** An object or an array begins. @returns whether to read on */
  opened(depth: number, at: number): boolean
  /** The name of a member, at any depth. */
  named?(name: string, depth: number, at: number): void
  /** The value of a member, without the spaces around it. */
  member(name: string, value: Span): void
}

const QUOTE = 0x22
const COMMA = 0x2c
const COLON = 0x3a
const OPEN_BRACKET = 0x5b
const BACKSLASH = 0x5c
const CLOSE_BRACKET = 0x5d
const OPEN_BRACE = 0x7b
const CLOSE_BRACE = 0x7d

/** Reads each character once. What it reports is right up to the first syntax error, which JSON.parse finds. */
function walk(text: string, visitor: Visitor): void {
  const walker = new Walker(text, visitor)
  for (let at = 0; at < text.length; ) at = walker.step(at)
}

class Walker {
  readonly #text: string
  readonly #visitor: Visitor
  #depth = 0
  /** The member that the walk is in, of an object whose members are reported. */
  #member: { name: string; from: number } | undefined

  constructor(text: string, visitor: Visitor) {
    this.#text = text
    this.#visitor = visitor
  }

  /** @returns where the next step begins */
  step(at: number): number {
    const code = this.#text.charCodeAt(at)
    if (code === QUOTE) return this.#string(at)
    if (code === OPEN_BRACE || code === OPEN_BRACKET) {
      this.#depth += 1
      if (!this.#visitor.opened(this.#depth, at)) return this.#text.length
    } else if (code === COMMA) {
      this.#endMember(at)
    } else if (code === CLOSE_BRACE || code === CLOSE_BRACKET) {
      this.#endMember(at)
      this.#depth -= 1
    }
    return at + 1
  }

  /** A string is a name if a colon follows. */
  #string(at: number): number {
    const text = this.#text
    const end = endOfString(text, at)
    const colon = afterSpaces(text, end)
    if (text.charCodeAt(colon) !== COLON) return end
    const name = decodedName(text.slice(at, end))
    this.#visitor.named?.(name, this.#depth, at)
    const from = afterSpaces(text, colon + 1)
    if (this.#depth === this.#visitor.depth) this.#member = { name, from }
    return from
  }

  #endMember(at: number): void {
    const member = this.#member
    if (!member || this.#depth !== this.#visitor.depth) return
    this.#member = undefined
    this.#visitor.member(member.name, { from: member.from, to: beforeSpaces(this.#text, at) })
  }
}

/** @param from that of its first quote @returns the place after its last one */
function endOfString(text: string, from: number): number {
  for (let quote = text.indexOf('"', from + 1); quote >= 0; quote = text.indexOf('"', quote + 1)) {
    let backslashes = 0
    while (text.charCodeAt(quote - 1 - backslashes) === BACKSLASH) backslashes += 1
    if (backslashes % 2 === 0) return quote + 1
  }
  return text.length
}

function afterSpaces(text: string, from: number): number {
  let at = from
  while (isSpace(text.charCodeAt(at))) at += 1
  return at
}

function beforeSpaces(text: string, to: number): number {
  let at = to
  while (isSpace(text.charCodeAt(at - 1))) at -= 1
  return at
}

/** Without the spaces around it, of which JSON has four. */
export function trimJson(text: string): string {
  const from = afterSpaces(text, 0)
  return text.slice(from, Math.max(from, beforeSpaces(text, text.length)))
}

function isSpace(code: number): boolean {
  return code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09
}

/** @param written with its quotes */
function decodedName(written: string): string {
  if (!written.includes('\\')) return written.slice(1, -1)
  try {
    return JSON.parse(written) as string
  } catch {
    return written
  }
}

/** JSON.parse reports a position for some errors only, and only in its message. */
function placeOfError(text: string): string {
  let at: number | undefined
  const onError = (_error: number, offset: number) => {
    at ??= offset
  }
  try {
    visit(text, { onError }, { disallowComments: true, allowTrailingComma: false })
  } catch {
    // This parser is recursive, and text that is no JSON may be very deep.
  }
  return at === undefined ? '' : placeOf(text, at)
}

function placeOf(text: string, at: number): string {
  const before = text.slice(0, at)
  const lines = before.split('\n')
  return `line ${lines.length}, column ${(lines.at(-1)?.length ?? 0) + 1}`
}
