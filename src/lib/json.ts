/**
 * Parses JSON with property names chosen by users. JSON.parse of Node 24 and 26 may take an escaped name for another
 * one that it read before and that starts like the escaped text (nodejs/node#63785): after a property `\`, it may
 * read `"` as `\`. So such names are replaced before parsing and restored afterwards.
 */

/** Same value, order and errors as JSON.parse should give. @throws SyntaxError */
export function parseJson(text: string): unknown {
  if (!text.includes('\\')) return JSON.parse(text)
  const spans = escapedNames(text)
  if (spans.length === 0) return JSON.parse(text)
  try {
    return parseRenamed(text, spans)
  } catch (error) {
    // Throw the error about the original text.
    JSON.parse(text)
    throw error
  }
}

/**
 * A name that needs no escape is written without one; it is then equal to the same name elsewhere. Other names get a
 * stand-in each, however they are escaped.
 */
function parseRenamed(text: string, spans: readonly Span[]): unknown {
  const decoded = new Map<string, string>()
  const pieces: string[] = []
  const standIns = new Map<string, number>()
  /** The stand-in before each piece. */
  const stands: (number | undefined)[] = [undefined]
  let from = 0
  for (const span of spans) {
    const name = decodedName(text.slice(span.from, span.to), decoded)
    pieces.push(text.slice(from, span.from))
    from = span.to
    if (needsEscape(name)) {
      if (!standIns.has(name)) standIns.set(name, standIns.size)
      stands.push(standIns.get(name))
    } else {
      stands.push(undefined)
      pieces[pieces.length - 1] += `"${name}"`
    }
  }
  pieces.push(text.slice(from))
  const mark = absentFrom(pieces)
  const standInOf = (number: number | undefined) => (number === undefined ? '' : `"${mark}${number}"`)
  const value: unknown = JSON.parse(pieces.map((piece, index) => standInOf(stands[index]) + piece).join(''))
  return withNames(value, new Map([...standIns].map(([name, number]) => [`${mark}${number}`, name])))
}

/** Whether the name cannot be written unescaped. */
function needsEscape(name: string): boolean {
  for (let at = 0; at < name.length; at += 1) {
    const code = name.charCodeAt(at)
    if (code === QUOTE || code === BACKSLASH || code < SPACE) return true
  }
  return false
}

/** @param known names by their escaped text; most repeat */
function decodedName(written: string, known: Map<string, string>): string {
  const held = known.get(written)
  if (held !== undefined) return held
  const name = JSON.parse(written) as string
  known.set(written, name)
  return name
}

/** Span of a name with a backslash, including its quotes. */
type Span = { from: number; to: number }

const QUOTE = 0x22
const BACKSLASH = 0x5c
const SPACE = 0x20

function escapedNames(text: string): Span[] {
  const names: Span[] = []
  for (let from = text.indexOf('"'); from !== -1; ) {
    let to = from + 1
    let isEscaped = false
    for (let code = text.charCodeAt(to); to < text.length && code !== QUOTE; code = text.charCodeAt(to)) {
      if (code === BACKSLASH) isEscaped = true
      to += code === BACKSLASH ? 2 : 1
    }
    to += 1
    if (isEscaped && isBeforeColon(text, to)) names.push({ from, to })
    from = text.indexOf('"', to)
  }
  return names
}

function isBeforeColon(text: string, at: number): boolean {
  let next = at
  while (next < text.length && ' \t\r\n'.includes(text.charAt(next))) next += 1
  return text[next] === ':'
}

/** `~<number>~` with the first number that appears nowhere. */
function absentFrom(pieces: readonly string[]): string {
  const taken = new Set<string>()
  for (const piece of pieces)
    for (const [, number = ''] of piece.matchAll(/~(\d{1,7})(?=~)/g)) taken.add(number)
  let free = 0
  while (taken.has(String(free))) free += 1
  return `~${free}~`
}

type Properties = Record<string, unknown>

/** Without recursion: nesting may be deeper than the stack. */
function withNames(value: unknown, names: ReadonlyMap<string, string>): unknown {
  const root: Properties = { value }
  const left: (Properties | unknown[])[] = names.size === 0 ? [] : [root]
  for (let holder = left.pop(); holder !== undefined; holder = left.pop())
    for (const [key, inside] of Object.entries(holder)) {
      if (typeof inside !== 'object' || inside === null) continue
      const renamed = Array.isArray(inside) ? inside : renamedProperties(inside as Properties, names)
      if (renamed !== inside) setProperty(holder as Properties, key, renamed)
      left.push(renamed)
    }
  return root.value
}

/** Returns the object itself if it has none of these names. */
function renamedProperties(object: Properties, names: ReadonlyMap<string, string>): Properties {
  if (!Object.keys(object).some((name) => names.has(name))) return object
  const renamed: Properties = {}
  for (const [name, value] of Object.entries(object)) setProperty(renamed, names.get(name) ?? name, value)
  return renamed
}

/** As JSON.parse: `__proto__` is a property, not the prototype. */
function setProperty(object: Properties, name: string, value: unknown): void {
  if (name === '__proto__')
    Object.defineProperty(object, name, { value, writable: true, enumerable: true, configurable: true })
  else object[name] = value
}

/** Undefined if `text` is no JSON. */
export function tryParseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** A field of something that may not even be an object. */
export function fieldOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined
}
