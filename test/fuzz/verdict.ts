/** What a run of schemathesis came to. */

/** How often an operation was answered with a status. */
export type StatusCount = { operation: string; status: number; count: number }

/** The part of its JSON report that is read. */
export type FuzzReport = {
  seed: number
  complete: boolean
  running_time: number
  operations: { total: number; tested: number } | null
  test_cases: { generated: number; unique_failures: number; errored: number }
  failures: { code: string; title: string; count: number; operations: string[] }[]
}

export type FuzzRun = { report: FuzzReport; exitCode: number | null; statuses: readonly StatusCount[] }

export const LEAST_CASES = 2_000
/** Requests of an operation that have to succeed: else all that was looked at is how it refuses. */
const LEAST_SUCCESSES = 10
/** Part of the requests that may be put off. */
const MOST_LIMITED = 0.01

/** What is wrong with a run, in words; none when it is good. @param operations `GET /path` of each in the document */
export function faultsOf({ report, exitCode, statuses }: FuzzRun, operations: readonly string[]): string[] {
  const { generated, unique_failures: failures, errored } = report.test_cases
  const total = sum(statuses)
  const limited = sum(statuses.filter(({ status }) => status === 429))
  const succeeded = (operation: string) =>
    sum(statuses.filter((one) => one.operation === operation && one.status >= 200 && one.status < 300))
  return [
    ...(report.complete ? [] : ['it did not come to its end']),
    ...(exitCode === 0
      ? []
      : [`schemathesis ended with ${exitCode}: ${failures} failures, ${errored} errors`]),
    ...(generated >= LEAST_CASES ? [] : [`only ${generated} cases of ${LEAST_CASES}`]),
    ...statuses
      .filter(({ status }) => status >= 500)
      .map(({ operation, status, count }) => `${operation} answered ${status} ${count} times`),
    ...(limited <= total * MOST_LIMITED ? [] : [`${limited} of ${total} requests were put off with 429`]),
    ...operations
      .filter((operation) => succeeded(operation) < LEAST_SUCCESSES)
      .map((operation) => `${operation} succeeded ${succeeded(operation)} times, which is too few to tell`),
  ]
}

/** A line for each operation, with how often it gave each status. */
export function tableOf(statuses: readonly StatusCount[]): string {
  const byOperation = Map.groupBy(statuses, ({ operation }) => operation)
  const width = Math.max(...[...byOperation.keys()].map(({ length }) => length))
  return [...byOperation]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([operation, of]) => {
      const counts = of.toSorted((a, b) => a.status - b.status)
      const cells = counts.map(({ status, count }) => `${status} x ${count}`)
      return `${operation.padEnd(width)}  ${cells.join(', ')}`
    })
    .join('\n')
}

export function sum(statuses: readonly StatusCount[]): number {
  return statuses.reduce((total, { count }) => total + count, 0)
}
