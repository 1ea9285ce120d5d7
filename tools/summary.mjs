// The last lines of .ci/run, the failed tests and the counts: `summary.mjs <folder of reports> <exit code of the tests> <of the
// checks> <of the rest of the tests>`. For the host's own Node, since the set-up itself may have failed.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'

const [folder = '.', testsExit = '1', checksExit = '1', restExit = '1'] = process.argv.slice(2)

const tests = readReport('tests.json')
const rest = readReport('rest.json')
const parts = [
  withExit(testCounts(tests), testsExit),
  withExit(checkCounts(readReport('checks.json')), checksExit),
  withExit(testCounts(rest), restExit),
]
for (const line of [...failures(tests), ...failures(rest)]) console.log(line)
const sum = (field) => parts.reduce((total, part) => total + part[field], 0)
console.log(`${sum('passed')} passed, ${sum('failed')} failed, ${sum('skipped')} skipped`)
process.exitCode = sum('failed') === 0 ? 0 : 1

/** Undefined if the run ended before it could write the report. */
function readReport(name) {
  try {
    return JSON.parse(readFileSync(join(folder, name), 'utf8'))
  } catch {
    return undefined
  }
}

/** Vitest's JSON counts tests; a file that failed to load has none, and counts as one failure. */
function testCounts(report) {
  if (report === undefined) return { passed: 0, failed: 0, skipped: 0 }
  const broken = report.testResults.filter(
    ({ status, assertionResults }) =>
      status === 'failed' && !assertionResults.some((test) => test.status === 'failed'),
  )
  return {
    passed: report.numPassedTests,
    failed: report.numFailedTests + broken.length,
    skipped: report.numPendingTests + report.numTodoTests,
  }
}

/** Which tests failed, and how: in a long log they are hard to find. */
function failures(report) {
  return (report?.testResults ?? []).flatMap(({ name, status, message, assertionResults }) => {
    const failed = assertionResults.filter((test) => test.status === 'failed')
    if (status === 'failed' && failed.length === 0)
      return [`FAILED ${name}: ${whatOf(message) || hookOf(assertionResults)}`]
    return failed.map(
      ({ fullName, failureMessages }) => `FAILED ${name}: ${fullName}: ${whatOf(failureMessages?.[0])}`,
    )
  })
}

/** Vitest's JSON does not say how a hook failed, only which tests did not run. */
function hookOf(tests) {
  const skipped = tests.find((test) => test.status === 'skipped' || test.status === 'pending')
  return `a hook failed, so these tests did not run: ${skipped?.ancestorTitles.join(' ') || 'all of the file'}`
}

/** In one line, without the stack; the counterexample of a property comes after its first line. */
function whatOf(message = '') {
  const [text = ''] = message.split(/\n\s+at /, 1)
  return text.replace(/\s*\n\s*/g, ' / ').slice(0, 500)
}

function checkCounts(report) {
  return { passed: report?.passed ?? 0, failed: report?.failed ?? 0, skipped: 0 }
}

/** An exit code that no count explains (a crash, an error outside of any test) is a separate failure. */
function withExit(counts, exit) {
  return exit !== '0' && counts.failed === 0 ? { ...counts, failed: 1 } : counts
}
