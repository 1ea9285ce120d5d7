/** The results of publishing by REST in docs/contributing/benchmark.md, from the files of the benchmark. */
import { restLoadTables, type Table } from '../../../test/bench/report-rest-load.ts'
import {
  REST_LOAD_RESULTS,
  type RestLoadFile,
  type RestLoadSection,
  restLoadFile,
} from '../../../test/bench/rest-load-results.ts'
import { NoPlaceError, type Output } from '../generated-file.ts'
import { markdownTable } from '../markdown-table.ts'
import { putSection } from '../page-section.ts'

const PAGE = 'docs/contributing/benchmark.md'
const SECTION = { name: 'results of rest-publishing, rest-tls and rest-replicas', end: 'end of results' }

const HEADINGS: Readonly<Record<RestLoadSection, string>> = {
  'rest-publishing': 'Publishing results',
  'rest-tls': 'TLS results',
  'rest-replicas': 'REST server replica results',
}

export const benchmarkResults: Output = {
  owns: [],
  files(read) {
    const page = read(PAGE)
    if (page === undefined) throw new NoPlaceError(`${PAGE} is missing, but results are written to it`)
    const sections = Object.keys(HEADINGS) as RestLoadSection[]
    const results = sections.map((section) => resultsOf(section, read))
    const missing = sections.filter((_, index) => results[index] === undefined)
    const parts = [...results.filter((result) => result !== undefined), ...measuring(missing, sections)]
    return [{ path: PAGE, content: putSection(PAGE, page, { ...SECTION, content: parts.join('\n') }) }]
  },
}

/** How to get the results that are missing. */
function measuring(missing: readonly RestLoadSection[], all: readonly RestLoadSection[]): string[] {
  if (missing.length === 0) return []
  const which = missing.length === all.length ? 'these results' : 'the other results'
  return [`To get ${which}, run \`npm run bench -- --only ${missing.join()}\`.\n`]
}

/** Undefined if it was not measured. */
function resultsOf(section: RestLoadSection, read: (path: string) => string | undefined): string | undefined {
  const command = `npm run bench -- --only ${section}`
  const text = read(`bench/results/${section}.json`)
  const heading = `### ${HEADINGS[section]}\n\n`
  if (text === undefined) return undefined
  const file = restLoadFile.parse(JSON.parse(text))
  const tables = restLoadTables(file).map(tableOf)
  return `${heading}Measured with \`${command}\` on ${file.measuredAt.slice(0, 10)}.\n${originOf(section, file)}\n\n${tables.join('\n')}`
}

/** Without the kernel: it may name the provider's machines. */
function originOf(section: RestLoadSection, file: RestLoadFile): string {
  const machine = (file.about.machine ?? 'unknown').split(', ').slice(0, 2).join(', ')
  const versions = Object.entries(file[REST_LOAD_RESULTS[section]]?.versions ?? {})
  return `Machine: ${machine}. Versions: ${versions.map(([name, version]) => `${name} ${version}`).join(', ')}.`
}

function tableOf({ title, rows: [head = [], ...rows] }: Table): string {
  return `${title}:\n\n${markdownTable(head, rows)}`
}
