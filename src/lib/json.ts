/**
 * JSON whose names somebody else chose. JSON.parse of Node 24 and 26 takes a name that is written with an escape for another one that
 * it has read before, of anybody's, where that one begins as the escaped text does (nodejs/node#63785): after a member `\`
 * it may read `"` as `\`. What has such names is parsed with others in their place, which are then exchanged.
 */

/** The same value, order and errors as JSON.parse has to give. @throws SyntaxError */
export function parseJson(text: string): unknown {
  if (!text.includes('\\')) return JSON.parse(text)
  const places = escapedNames(text)
  if (places.length === 0) return JSON.parse(text)
  try {
    return parseRenamed(text, places)
  } catch (error) {
    // Its words are about the text as it came.
    JSON.parse(text)
    throw error
  }
}

/**
 * A name that needs no escape is written without one, so that it is the same as where it was. The others have stand-ins, one for each
 * name, however it is written.
 */
function parseRenamed(text: string, places: readonly Place[]): unknown {
  const decoded = new Map<string, string>()
  const pieces: string[] = []
  const standIns = new Map<string, number>()
  /** Of the piece before which one stands. */
  const stands: (number | undefined)[] = [undefined]
  let from = 0
  for (const place of places) {
    const name = decodedName(text.slice(place.from, place.to), decoded)
    pieces.push(text.slice(from, place.from))
    from = place.to
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

/** What may not stand in a name as it is. */
function needsEscape(name: string): boolean {
  for (let at = 0; at < name.length; at += 1) {
    const code = name.charCodeAt(at)
    if (code === QUOTE || code === BACKSLASH || code < SPACE) return true
  }
  return false
}

/** @param known names by how they are written; most come again and again */
function decodedName(written: string, known: Map<string, string>): string {
  const held = known.get(written)
  if (held !== undefined) return held
  const name = JSON.parse(written) as string
  known.set(written, name)
  return name
}

/** Where a name with a backslash stands, its quotes with it. */
type Place = { from: number; to: number }

const QUOTE = 0x22
const BACKSLASH = 0x5c
const SPACE = 0x20

function escapedNames(text: string): Place[] {
  const names: Place[] = []
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

/** `~<number>~`, with the first number for which it is nowhere in there. */
function absentFrom(pieces: readonly string[]): string {
  const taken = new Set<string>()
  for (const piece of pieces)
    for (const [, number = ''] of piece.matchAll(/~(\d{1,7})(?=~)/g)) taken.add(number)
  let free = 0
  while (taken.has(String(free))) free += 1
  return `~${free}~`
}

type Members = Record<string, unknown>

/** Without recursion: it may be nested deeper than a stack. */
function withNames(value: unknown, names: ReadonlyMap<string, string>): unknown {
  const root: Members = { value }
  const left: (Members | unknown[])[] = names.size === 0 ? [] : [root]
  for (let holder = left.pop(); holder !== undefined; holder = left.pop())
    for (const [key, inside] of Object.entries(holder)) {
      if (typeof inside !== 'object' || inside === null) continue
      const renamed = Array.isArray(inside) ? inside : renamedMembers(inside as Members, names)
      if (renamed !== inside) setMember(holder as Members, key, renamed)
      left.push(renamed)
    }
  return root.value
}

/** The same object where it has none of these names. */
function renamedMembers(object: Members, names: ReadonlyMap<string, string>): Members {
  if (!Object.keys(object).some((name) => names.has(name))) return object
  const renamed: Members = {}
  for (const [name, value] of Object.entries(object)) setMember(renamed, names.get(name) ?? name, value)
  return renamed
}

/** As JSON.parse does: a member of that name, and not what objects are made of. */
function setMember(object: Members, name: string, value: unknown): void {
  if (name === '__proto__')
    Object.defineProperty(object, name, { value, writable: true, enumerable: true, configurable: true })
  else object[name] = value
}
