/** Reads the names of tests out of a test file, as they are written there. */

const CALL = /^( *)(?:describe|test|it)((?:\.\w+)*)(?:<.*>)?\(/gm
const LITERAL = String.raw`(['"\`])((?:\\.|(?!\1)[^\\])*)\1`
const TITLE = new RegExp(String.raw`^[ .\w]*\(\s*${LITERAL}`)
/** What comes first may be a table or a condition: `test.for([...])('title', ...)`. */
const TITLE_AFTER_ARGUMENTS = new RegExp(String.raw`\)\(\s*${LITERAL}`)
const WITH_ARGUMENTS = /\.(?:each|for|skipIf|runIf)\b/
const IS_OFF = /\.(?:skip|todo)\b/
const IS_DESCRIBE = /^ *describe\b/

type Open = { indent: number; title: string; off: boolean }

/**
 * The tests of a formatted file that are not switched off: for each the titles of its describes and its own, placeholders
 * (`%s`, `$given`) as written.
 */
export function testNamesIn(source: string): string[][] {
  const names: string[][] = []
  let around: Open[] = []
  const calls = [...source.matchAll(CALL)]
  for (const [index, call] of calls.entries()) {
    const [, spaces = '', modifiers = ''] = call
    const text = source.slice(call.index, calls[index + 1]?.index)
    const title = (WITH_ARGUMENTS.test(modifiers) ? TITLE_AFTER_ARGUMENTS : TITLE).exec(text)?.[2]
    if (title === undefined) continue
    around = around.filter(({ indent }) => indent < spaces.length)
    const one = {
      indent: spaces.length,
      title: title.replaceAll(/\\(.)/g, '$1'),
      off: IS_OFF.test(modifiers),
    }
    if (IS_DESCRIBE.test(text)) around.push(one)
    else if (![...around, one].some(({ off }) => off)) names.push([...around, one].map(({ title }) => title))
  }
  return names
}

const PLACEHOLDER = /%[sdifjoO#%]|\$\{[^}]*\}|\$\w+(?:\.\w+)*/
const VALUE = '(.+)'

/**
 * Whether a name is that of a test: its title, with as many of those around it as are needed, joined by ` > `. A title with
 * placeholders is named as it is written, by what is constant before the first of them, or with values for them.
 *
 * @param source the text that such values have to be in
 */
export function isNameOf(name: string, titles: readonly string[], source: string): boolean {
  return titles.some((_, index) => fits(name, titles.slice(index), source))
}

function fits(name: string, titles: readonly string[], source: string): boolean {
  if (name === titles.join(' > ')) return true
  // Nothing but placeholders would fit any name.
  if (titles.every((title) => constantsOf(title).join('').trim() === '')) return false
  const found = new RegExp(`^${titles.map(patternOf).join(' > ')}$`).exec(name)
  if (!found) return false
  const values: readonly (string | undefined)[] = found.slice(1)
  return values.every((value) => value === undefined || source.includes(value))
}

function constantsOf(title: string): string[] {
  return title.split(PLACEHOLDER)
}

function patternOf(title: string): string {
  const constants = constantsOf(title)
  const filled = constants.map(escaped).join(VALUE)
  const before = (constants[0] ?? '').replace(/[\s:,(]+$/, '')
  return constants.length === 1 || before === '' ? filled : `(?:${escaped(before)}|${filled})`
}

function escaped(text: string): string {
  return text.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')
}
