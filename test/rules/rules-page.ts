/** Reads test/reports/rules.md, and finds what of it is not so. */
import { posix } from 'node:path'
import { isNameOf, testNamesIn } from './test-names.ts'

export type RuleRow = { line: number; rule: string; tests: string[] }

const RULER = /^\|[ |-]+$/
const NONE_YET = /^no test yet\b/
const HAS_SOURCE = /\((?:§\d[^()]*|design)\)$/
/** `` `ordered`: title of a test ``; the tests after `beside` prove a part of it without an API server. */
const REFERENCE = /^(?<beside>beside )?`(?<file>[\w./-]+)`: (?<name>.+)$/

/** The rows of all tables; the first row of a table is its head. */
export function rulesIn(page: string): RuleRow[] {
  const lines = page.split('\n')
  return lines.flatMap((text, index) => {
    if (!text.startsWith('| ') || RULER.test(text) || RULER.test(lines[index + 1] ?? '')) return []
    const [rule = '', tests = '', ...more] = text.slice(2).replace(/ \|$/, '').split(' | ')
    return [{ line: index + 1, rule, tests: [tests, ...more].join(' | ').split('<br>') }]
  })
}

/** A file by the name that the page gives it: without a folder it is one of the tests of the whole. */
export function pathOf(file: string): string {
  return file.includes('/') ? `${file}.test.ts` : `test/integration/${file}.test.ts`
}

/**
 * @param read the text of a file of the repository; undefined where there is none
 * @returns what is wrong with a row, in words
 */
export function problemsOf(row: RuleRow, read: (path: string) => string | undefined): string[] {
  const found = row.tests.flatMap((test) => problemOf(test, read) ?? [])
  if (!HAS_SOURCE.test(row.rule)) found.push('the rule does not end with its source')
  if (!row.tests.some((test) => NONE_YET.test(test) || isProof(test))) {
    found.push('no test on an API server is named, nor does it say "no test yet"')
  }
  return found.map((problem) => `line ${row.line}: ${problem}`)
}

function problemOf(test: string, read: (path: string) => string | undefined): string | undefined {
  if (NONE_YET.test(test)) return undefined
  const { beside, file = '', name = '' } = REFERENCE.exec(test)?.groups ?? {}
  if (file === '') return `"${test}" is not \`file\`: name of a test`
  const path = pathOf(file)
  const source = read(path)
  if (source === undefined) return `there is no ${path}`
  if (beside === undefined && path.startsWith('src/')) return `${path} has to stand behind "beside"`
  const around = [source, ...importsOf(path, source).map((imported) => read(imported) ?? '')].join('\n')
  const count = testNamesIn(source).filter((titles) => isNameOf(name, titles, around)).length
  if (count === 0) return `${path} has no test "${name}"`
  return count > 1 ? `${path} has ${count} tests "${name}": name the describe around it, too` : undefined
}

/** Tables of a test may be in imported files. */
export function importsOf(path: string, source: string): string[] {
  return [...source.matchAll(/from '(\.[^']+)'/g)].map(([, to = '']) => posix.join(posix.dirname(path), to))
}

function isProof(test: string): boolean {
  const { beside, file = '' } = REFERENCE.exec(test)?.groups ?? {}
  return file !== '' && beside === undefined
}
