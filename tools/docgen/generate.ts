/** `npm run generate` writes every generated file; with `--check` it writes nothing, and fails if a file is not up to date. */
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Drift, driftOf } from './drift.ts'
import { NoPlaceError } from './generated-file.ts'
import { alertIndex } from './outputs/alert-index.ts'
import { benchmarkResults } from './outputs/benchmark-results.ts'
import { chartTemplates } from './outputs/chart-templates.ts'
import { chartValuesOutput } from './outputs/chart-values.ts'
import { crds } from './outputs/crds.ts'
import { dashboard } from './outputs/dashboard.ts'
import { eventTypes } from './outputs/event-types.ts'
import { fieldTables } from './outputs/field-tables.ts'
import { guaranteesPage } from './outputs/guarantees-page.ts'
import { installCommands } from './outputs/install-lines.ts'
import { logEventsPage } from './outputs/log-events-page.ts'
import { openApi } from './outputs/openapi.ts'
import { openApiTypes } from './outputs/openapi-types.ts'
import { problemPage } from './outputs/problem-page.ts'
import { rightsPage } from './outputs/rights-page.ts'
import { routeTable } from './outputs/route-table.ts'

const OUTPUTS = [
  alertIndex,
  benchmarkResults,
  chartTemplates,
  chartValuesOutput,
  crds,
  dashboard,
  eventTypes,
  fieldTables,
  guaranteesPage,
  installCommands,
  logEventsPage,
  openApi,
  openApiTypes,
  problemPage,
  rightsPage,
  routeTable,
]
const ROOT = fileURLToPath(new URL('../../', import.meta.url))

function main(check: boolean): number {
  const drift = driftOf(OUTPUTS, { read, list })
  if (check) return report(drift)
  for (const { path, wanted } of drift) {
    if (wanted === undefined) rmSync(join(ROOT, path))
    else {
      mkdirSync(dirname(join(ROOT, path)), { recursive: true })
      writeFileSync(join(ROOT, path), wanted)
    }
    console.log(`${wanted === undefined ? 'removed' : 'wrote'} ${path}`)
  }
  return 0
}

function report(drift: Drift[]): number {
  for (const { path, problem } of drift) console.error(`${path}: ${problem}`)
  if (drift.length > 0) console.error('Run `npm run generate` and commit the result.')
  return drift.length > 0 ? 1 : 0
}

function read(path: string): string | undefined {
  try {
    return readFileSync(join(ROOT, path), 'utf8')
  } catch (error) {
    if (isMissing(error)) return undefined
    throw error
  }
}

function list(folder: string): string[] {
  try {
    const names = readdirSync(join(ROOT, folder), { withFileTypes: true })
    return names.filter((entry) => entry.isFile()).map((entry) => `${folder}/${entry.name}`)
  } catch (error) {
    if (isMissing(error)) return []
    throw error
  }
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT'
}

try {
  process.exitCode = main(process.argv.includes('--check'))
} catch (error) {
  if (!(error instanceof NoPlaceError)) throw error
  console.error(error.message)
  process.exitCode = 1
}
