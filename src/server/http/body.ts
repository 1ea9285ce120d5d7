/**
 * JSON as a request may have it. JSON.parse makes the value; a walk over the tokens finds what it lets pass (a
 * member twice, names that are dangerous to copy, depth) and where each member stands, so that it can be passed on
 * to the digit.
 */
import { createScanner, visit } from 'jsonc-parser'
import { parseJson } from '../../lib/json.ts'
import { Problem } from './problems.ts'

export type JsonText = {
  value: unknown
  /** Text of a member of the outermost object, as it came. */
  member(name: string): string | undefined
}

/** Deeper than anything that means something, and far from where a recursive reader ends. */
export const MAX_JSON_DEPTH = 100

/** Kinds of tokens; the library's own enumeration exists for its compiler only. */
const OPEN_BRACE = 1
const CLOSE_BRACE = 2
const OPEN_BRACKET = 3
const CLOSE_BRACKET = 4
const COMMA = 5
const COLON = 6
const STRING = 10
const END = 17

/** @throws Problem bad_json */
export function readJson(text: string): JsonText {
  const outline = outlineOf(text)
  const value = parse(text)
  if (outline.fault !== undefined) throw badJson(outline.fault)
  return {
    value,
    member(name) {
      const place = outline.members.get(name)
      return place && text.slice(place.from, place.to)
    },
  }
}

/** Of text that may be no JSON at all: then only the depth counts, and JSON.parse finds the rest. */
function outlineOf(text: string): Outline {
  const outline = new Outline(text)
  const scanner = createScanner(text, true)
  for (let kind = scanner.scan(); kind !== END; kind = scanner.scan()) {
    const at = scanner.getTokenOffset()
    outline.take(kind, at, scanner.getPosition())
    if (kind === STRING) outline.string = { value: scanner.getTokenValue(), at }
  }
  return outline
}

class Outline {
  readonly members = new Map<string, { from: number; to: number }>()
  /** The first that is wrong, in words. */
  fault: string | undefined
  /** The last string: before a colon it is a name. */
  string: { value: string; at: number } = { value: '', at: 0 }
  readonly #text: string
  /** For each level that is open the names in it; none in an array. */
  readonly #levels: (Set<string> | undefined)[] = []
  #member: { name: string; from: number; to: number } | undefined

  constructor(text: string) {
    this.#text = text
  }

  take(kind: number, from: number, to: number): void {
    const outermost = this.#levels.length === 1
    if (kind === COLON) this.#name(outermost, to)
    else if (outermost && (kind === COMMA || kind === CLOSE_BRACE)) this.#endMember()
    else if (this.#member) this.#grow(this.#member, from, to)
    if (kind === OPEN_BRACE || kind === OPEN_BRACKET) this.#open(kind, from)
    if (kind === CLOSE_BRACE || kind === CLOSE_BRACKET) this.#levels.pop()
  }

  #open(kind: number, at: number): void {
    if (this.#levels.length === MAX_JSON_DEPTH) {
      throw badJson(`It nests deeper than ${MAX_JSON_DEPTH} levels${placeOf(this.#text, at)}.`)
    }
    this.#levels.push(kind === OPEN_BRACE ? new Set() : undefined)
  }

  #name(outermost: boolean, after: number): void {
    const { value, at } = this.string
    const names = this.#levels.at(-1)
    if (outermost && value === '__proto__')
      this.fault ??= `No member may be called __proto__${placeOf(this.#text, at)}.`
    if (names?.has(value)) {
      this.fault ??= `The member ${JSON.stringify(value.slice(0, 100))} is there twice${placeOf(this.#text, at)}.`
    }
    names?.add(value)
    if (outermost) this.#member = { name: value, from: -1, to: after }
  }

  #grow(member: { from: number; to: number }, from: number, to: number): void {
    if (member.from < 0) member.from = from
    member.to = to
  }

  #endMember(): void {
    const member = this.#member
    if (member) this.members.set(member.name, { from: member.from, to: member.to })
    this.#member = undefined
  }
}

function parse(text: string): unknown {
  try {
    return parseJson(text)
  } catch {
    throw badJson(`It does not parse${placeOfFault(text)}.`)
  }
}

/** JSON.parse tells it for some faults only, and in its message. */
function placeOfFault(text: string): string {
  let at: number | undefined
  const onError = (_error: number, offset: number) => {
    at ??= offset
  }
  try {
    visit(text, { onError }, { disallowComments: true, allowTrailingComma: false })
  } catch {
    // Its parser is recursive, and text that is no JSON may be as deep as it likes.
  }
  return at === undefined ? '' : placeOf(text, at)
}

function placeOf(text: string, at: number): string {
  const before = text.slice(0, at)
  const lines = before.split('\n')
  return ` at line ${lines.length}, column ${(lines.at(-1)?.length ?? 0) + 1}`
}

function badJson(detail: string): Problem {
  return new Problem('bad_json', { detail })
}
