/** The tests that test/reports/guarantees.md names. */
import { GUARANTEES, type Row } from '../../tools/docgen/guarantees/guarantees.ts'
import { importsOf, pathOf } from '../rules/rules-page.ts'
import { isNameOf, testNamesIn } from '../rules/test-names.ts'

export const ROWS: readonly Row[] = [
  ...GUARANTEES.promises,
  ...GUARANTEES.failures,
  ...GUARANTEES.egress,
  ...GUARANTEES.restServer,
]

/** Means all tests of a file. */
const ALL = '*'
const BETWEEN = ' > '

type Read = (path: string) => string | undefined

/** Each reference once, as in the page. */
export function references(): string[] {
  return [...new Set(ROWS.flatMap(({ tests }) => tests))]
}

export function fileOf(reference: string): string {
  return partsOf(reference).path
}

/** @returns the literal titles of the referenced tests; undefined if there is no such file */
export function titlesOf(reference: string, read: Read): string[][] | undefined {
  const { path, name } = partsOf(reference)
  const source = read(path)
  if (source === undefined) return undefined
  // Tables of a test may be in imported files.
  const around = [source, ...importsOf(path, source).map((imported) => read(imported) ?? '')].join('\n')
  return testNamesIn(source).filter((titles) => name === ALL || isNameOf(name, titles, around))
}

/**
 * Whether a reference includes an executed case: a title with placeholders, or its beginning, includes all of its cases, one with
 * values a single one.
 * @param ran its title with those of its suites
 */
export function isMeant(reference: string, titles: readonly string[][], ran: readonly string[]): boolean {
  const { name } = partsOf(reference)
  if (name === ALL) return true
  const parts = name.split(BETWEEN).reverse()
  const path = ran.join(BETWEEN)
  return titles.some(
    (one) =>
      isNameOf(path, one, path) &&
      parts.every((part, i) => ran.at(-1 - i) === part || (one.at(-1 - i) ?? '').startsWith(part)),
  )
}

function partsOf(reference: string): { path: string; name: string } {
  const { file = '', name = '' } = /^`(?<file>[^`]+)`: (?<name>.+)$/.exec(reference)?.groups ?? {}
  return { path: pathOf(file), name }
}
