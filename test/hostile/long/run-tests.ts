/** Runs the tests that test/reports/guarantees.md names, and counts the passed cases of each. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { fileOf, isMeant, references, titlesOf } from '../named-tests.ts'

const ROOT = fileURLToPath(new URL('../../../', import.meta.url))
const VITEST = 'node_modules/vitest/vitest.mjs'

type Case = {
  path: string
  /** Its title, after those of the enclosing suites. */
  titles: string[]
  passed: boolean
}

export type TestRun = {
  /** By reference, as in the page. */
  cases: Record<string, { passed: number; failed: number }>
  failed: string[]
}

/** The source of the cases: a run of the files with this environment, or the report of a complete run. */
export type Source = { environment: Record<string, string> } | { report: string }

/** @param isWanted decides by the path of a test file */
export async function runTests(isWanted: (path: string) => boolean, source: Source): Promise<TestRun> {
  const named = references().filter((reference) => isWanted(fileOf(reference)))
  const paths = [...new Set(named.map(fileOf))]
  const text =
    'report' in source ? await readFile(source.report, 'utf8') : await reportOf(paths, source.environment)
  const cases = readCases(text, paths)
  const counted = named.map((reference) => [reference, countOf(reference, cases)] as const)
  return {
    cases: Object.fromEntries(counted),
    failed: cases.filter(({ passed }) => !passed).map(({ path, titles }) => `${path}: ${titles.join(' > ')}`),
  }
}

function countOf(reference: string, cases: readonly Case[]): { passed: number; failed: number } {
  const titles = titlesOf(reference, read) ?? []
  const own = cases.filter(
    ({ path, titles: ran }) => path === fileOf(reference) && isMeant(reference, titles, ran),
  )
  const passed = own.filter((one) => one.passed).length
  return { passed, failed: own.length - passed }
}

function read(path: string): string | undefined {
  return existsSync(join(ROOT, path)) ? readFileSync(join(ROOT, path), 'utf8') : undefined
}

async function reportOf(paths: readonly string[], environment: Record<string, string>): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'davit-cases-'))
  const file = join(folder, 'cases.json')
  try {
    const args = [VITEST, 'run', '--reporter=default', '--reporter=json', `--outputFile.json=${file}`]
    const child = spawn(process.execPath, [...args, ...paths], {
      cwd: ROOT,
      env: { ...process.env, DAVIT_TESTS: 'full', ...environment },
      stdio: 'inherit',
    })
    await once(child, 'exit')
    return await readFile(file, 'utf8')
  } finally {
    await rm(folder, { recursive: true })
  }
}

type Report = {
  testResults: {
    name: string
    assertionResults: { ancestorTitles: string[]; title: string; status: string }[]
  }[]
}

/** Skipped tests are not cases. A report may be from another folder with the same commit. */
function readCases(text: string, paths: readonly string[]): Case[] {
  const report = JSON.parse(text) as Report
  return report.testResults.flatMap(({ name, assertionResults }) => {
    const path = paths.find((each) => name.endsWith(`/${each}`))
    if (path === undefined) return []
    return assertionResults
      .filter(({ status }) => status === 'passed' || status === 'failed')
      .map(({ ancestorTitles, title, status }) => ({
        path,
        titles: [...ancestorTitles, title],
        passed: status === 'passed',
      }))
  })
}
