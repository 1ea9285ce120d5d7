/**
 * JSON whose names somebody else chose. JSON.parse of Node 24 and 26 takes a name that is written with an escape for another one that
 * it has read before, of anybody's, where that one begins as the escaped text does (nodejs/node#63785): after a member `\`
 * it may read `"` as `\`. What has such names is parsed with others in their place, which are then exchanged.
 */

/** The same value, order and errors as JSON.parse has. @throws SyntaxError */
export function parseJson(text: string): unknown {
  if (!text.includes('\\')) return JSON.parse(text)
  const names = escapedNames(text)
  if (names.length === 0) return JSON.parse(text)
  // As it came: for the place in the message where it is none.
  JSON.parse(text)
  const standIns = new Map<string, string>()
  const mark = absentFrom(text)
  let renamed = ''
  let copied = 0
  for (const { from, to } of names) {
    const standIn = `${mark}${standIns.size}`
    standIns.set(standIn, JSON.parse(text.slice(from, to)) as string)
    renamed += `${text.slice(copied, from)}"${standIn}"`
    copied = to
  }
  const value: unknown = JSON.parse(renamed + text.slice(copied))
  giveNamesBack(value, standIns)
  return value
}

/** Where a name with a backslash stands, its quotes with it. */
type Place = { from: number; to: number }

const QUOTE = 0x22
const BACKSLASH = 0x5c

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

/** Longer than whatever there is of it. */
function absentFrom(text: string): string {
  let longest = 0
  for (const [run] of text.matchAll(/~+/g)) longest = Math.max(longest, run.length)
  return '~'.repeat(longest + 1)
}

/** Without recursion: it may be nested deeper than a stack. */
function giveNamesBack(value: unknown, standIns: ReadonlyMap<string, string>): void {
  const left = [value]
  while (left.length > 0) {
    const next = left.pop()
    if (typeof next !== 'object' || next === null) continue
    if (!Array.isArray(next)) renameMembers(next as Record<string, unknown>, standIns)
    for (const inside of Object.values(next)) left.push(inside)
  }
}

/** All of them are made anew, so that they stay in their order; what stands twice is as the last one says. */
function renameMembers(object: Record<string, unknown>, standIns: ReadonlyMap<string, string>): void {
  const members = Object.entries(object)
  if (!members.some(([name]) => standIns.has(name))) return
  for (const [name] of members) delete object[name]
  for (const [name, value] of members)
    Object.defineProperty(object, standIns.get(name) ?? name, {
      value,
      writable: true,
      enumerable: true,
      configurable: true,
    })
}
