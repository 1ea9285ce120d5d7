/** Runs the tests that docs/guarantees.md names, and counts which cases of each passed. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { fileOf, isMeant, references, titlesOf } from '../named-tests.ts'

const ROOT = fileURLToPath(new URL('../../../', import.meta.url))
const VITEST = 'node_modules/vitest/vitest.mjs'

type Case = {
  path: string
  /** Its title, after those of what is around it. */
  titles: string[]
  passed: boolean
}

export type TestRun = {
  /** By reference, as the page has it. */
  cases: Record<string, { passed: number; failed: number }>
  failed: string[]
}

/** @param isWanted of the path of a file of tests */
export async function runTests(
  isWanted: (path: string) => boolean,
  environment: Record<string, string>,
): Promise<TestRun> {
  const named = references().filter((reference) => isWanted(fileOf(reference)))
  const paths = [...new Set(named.map(fileOf))]
  const cases = await casesOf(paths, environment)
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

async function casesOf(paths: readonly string[], environment: Record<string, string>): Promise<Case[]> {
  const folder = await mkdtemp(join(tmpdir(), 'davit-cases-'))
  const file = join(folder, 'cases.json')
  try {
    const args = [VITEST, 'run', '--reporter=default', '--reporter=json', `--outputFile.json=${file}`]
    const child = spawn(process.execPath, [...args, ...paths], {
      cwd: ROOT,
      env: { ...process.env, ...environment },
      stdio: 'inherit',
    })
    await once(child, 'exit')
    return readCases(await readFile(file, 'utf8'))
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

/** What was not run is no case. */
function readCases(text: string): Case[] {
  const report = JSON.parse(text) as Report
  return report.testResults.flatMap(({ name, assertionResults }) =>
    assertionResults
      .filter(({ status }) => status === 'passed' || status === 'failed')
      .map(({ ancestorTitles, title, status }) => ({
        path: relative(ROOT, name),
        titles: [...ancestorTitles, title],
        passed: status === 'passed',
      })),
  )
}
