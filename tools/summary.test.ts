import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'

const PROGRAM = fileURLToPath(new URL('./summary.mjs', import.meta.url))

let folder: string

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'summary-'))
})

afterEach(() => rmSync(folder, { recursive: true, force: true }))

const passedFile = { status: 'passed', assertionResults: [{ status: 'passed' }] }

const TESTS = {
  numPassedTests: 10,
  numFailedTests: 0,
  numPendingTests: 2,
  numTodoTests: 1,
  testResults: [passedFile],
}

type Run = { tests?: object; checks?: object; rest?: object; exits?: [string, string, string] }

function summaryOf({ tests, checks, rest, exits = ['0', '0', '0'] }: Run): {
  code: number | null
  line: string
  failures: string[]
} {
  if (tests !== undefined) writeFileSync(join(folder, 'tests.json'), JSON.stringify(tests))
  if (checks !== undefined) writeFileSync(join(folder, 'checks.json'), JSON.stringify(checks))
  if (rest !== undefined) writeFileSync(join(folder, 'rest.json'), JSON.stringify(rest))
  const result = spawnSync(process.execPath, [PROGRAM, folder, ...exits], { encoding: 'utf8' })
  const lines = result.stdout.trim().split('\n')
  return { code: result.status, line: lines.pop() ?? '', failures: lines }
}

describe('the summary of a run', () => {
  it('adds tests and checks', () => {
    const got = summaryOf({ tests: TESTS, checks: { passed: 5, failed: 0 } })
    expect(got).toMatchObject({ code: 0, line: '15 passed, 0 failed, 3 skipped' })
  })

  it('counts failed tests and failed checks', () => {
    const failed = { status: 'failed', assertionResults: [{ status: 'failed' }] }
    const tests = { ...TESTS, numFailedTests: 1, testResults: [passedFile, failed] }
    const got = summaryOf({ tests, checks: { passed: 3, failed: 2 }, exits: ['1', '1', '0'] })
    expect(got).toMatchObject({ code: 1, line: '13 passed, 3 failed, 3 skipped' })
  })

  it('names the tests that failed before the counts', () => {
    const result = {
      status: 'failed',
      fullName: 'a bake waits',
      failureMessages: ['Error: no certificate\nCounterexample: ["a"]\n    at bake.ts\n    at main.ts'],
    }
    const tests = {
      ...TESTS,
      numFailedTests: 1,
      testResults: [{ name: 'a.test.ts', status: 'failed', assertionResults: [result] }],
    }
    const { failures } = summaryOf({ rest: tests, exits: ['0', '0', '1'] })
    expect(failures).toEqual([
      'FAILED a.test.ts: a bake waits: Error: no certificate / Counterexample: ["a"]',
    ])
  })

  it('counts a test file that could not be loaded', () => {
    const broken = { status: 'failed', assertionResults: [] }
    const tests = { ...TESTS, testResults: [passedFile, broken] }
    const got = summaryOf({ tests, checks: { passed: 5, failed: 0 }, exits: ['1', '0', '0'] })
    expect(got).toMatchObject({ code: 1, line: '15 passed, 1 failed, 3 skipped' })
  })

  it('names the tests that did not run because a hook failed', () => {
    const skipped = [{ status: 'passed' }, { status: 'skipped', ancestorTitles: ['storm 1'] }]
    const broken = { name: 'a.test.ts', status: 'failed', message: '', assertionResults: skipped }
    const { failures } = summaryOf({ rest: { ...TESTS, testResults: [broken] }, exits: ['0', '0', '1'] })
    expect(failures).toEqual(['FAILED a.test.ts: a hook failed, so these tests did not run: storm 1'])
  })

  it('counts a run that ended without a report', () => {
    const got = summaryOf({ checks: { passed: 5, failed: 0 }, exits: ['137', '0', '0'] })
    expect(got).toMatchObject({ code: 1, line: '5 passed, 1 failed, 0 skipped' })
  })

  it('counts an exit code that no test explains', () => {
    const got = summaryOf({ tests: TESTS, checks: { passed: 5, failed: 0 }, exits: ['1', '0', '0'] })
    expect(got).toMatchObject({ code: 1, line: '15 passed, 1 failed, 3 skipped' })
  })

  it('adds the rest of the tests, and does not leave them out when they never came', () => {
    const checks = { passed: 5, failed: 0 }
    const got = summaryOf({ tests: TESTS, checks, rest: TESTS })
    expect(got).toMatchObject({ code: 0, line: '25 passed, 0 failed, 6 skipped' })
    rmSync(join(folder, 'rest.json'))
    expect(summaryOf({ tests: TESTS, checks, exits: ['0', '0', '1'] })).toMatchObject({
      code: 1,
      line: '15 passed, 1 failed, 3 skipped',
    })
  })
})
