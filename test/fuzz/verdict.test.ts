import { describe, expect, test } from 'vitest'
import { type FuzzReport, type FuzzRun, faultsOf, tableOf } from './verdict.ts'

const GOOD: FuzzReport = {
  complete: true,
  running_time: 100,
  operations: { total: 1, tested: 1 },
  test_cases: { generated: 2_000, unique_failures: 0, errored: 0 },
  failures: [],
}
const GET = 'GET /a'
const answered = (status: number, count: number) => ({ operation: GET, status, count })

function faultsOfRun(more: { report?: Partial<FuzzReport> } & Partial<Omit<FuzzRun, 'report'>>): string[] {
  const { report, ...rest } = more
  return faultsOf({ exitCode: 0, statuses: [answered(200, 10)], ...rest, report: { ...GOOD, ...report } }, [
    GET,
  ])
}

describe('a run', () => {
  test('is good with enough cases and successes, and nothing that was found', () => {
    expect(faultsOfRun({ statuses: [answered(200, 990), answered(429, 10), answered(404, 1)] })).toEqual([])
  })

  const cases = (generated: number) => ({ ...GOOD.test_cases, generated })
  test.for([
    { given: 'that was broken off', run: { report: { complete: false } }, want: 'did not come to its end' },
    { given: 'with findings', run: { exitCode: 1 }, want: 'schemathesis ended with 1' },
    { given: 'that was killed', run: { exitCode: null }, want: 'schemathesis ended with null' },
    { given: 'of few cases', run: { report: { test_cases: cases(1_999) } }, want: 'only 1999 cases' },
    {
      given: 'that met an error of the server',
      run: { statuses: [answered(200, 10), answered(503, 1)] },
      want: 'GET /a answered 503 1 times',
    },
    {
      given: 'that was put off too often',
      run: { statuses: [answered(200, 98), answered(429, 2)] },
      want: '2 of 100 requests were put off',
    },
    {
      given: 'in which an operation hardly succeeds',
      run: { statuses: [answered(200, 9), answered(404, 900)] },
      want: 'GET /a succeeded 9 times',
    },
    { given: 'that left an operation out', run: { statuses: [] }, want: 'GET /a succeeded 0 times' },
  ])('$given is none', ({ run, want }) => {
    const faults = faultsOfRun(run)
    expect(faults).toHaveLength(1)
    expect(faults[0]).toContain(want)
  })
})

test('the table has a line for each operation, by its statuses, and one for what is none', () => {
  const statuses = [
    answered(404, 2),
    { operation: 'DELETE /a/b', status: 204, count: 1 },
    answered(200, 3),
    { operation: 'TRACE /a', status: 405, count: 1 },
    { operation: 'QUERY /a', status: 405, count: 4 },
  ]
  expect(tableOf(statuses, ['DELETE /a/b', GET])).toBe(
    [
      'methods that are not there  405 x 5',
      'DELETE /a/b                 204 x 1',
      'GET /a                      200 x 3, 404 x 2',
    ].join('\n'),
  )
})
