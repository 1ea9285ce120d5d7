/** What a run of schemathesis came to. */

/** How often an operation was answered with a status. */
export type StatusCount = { operation: string; status: number; count: number }

/** The part of its JSON report that is read. */
export type FuzzReport = {
  complete: boolean
  running_time: number
  operations: { total: number; tested: number } | null
  test_cases: { generated: number; unique_failures: number; errored: number }
  failures: { code: string; title: string; count: number; operations: string[] }[]
}

export type FuzzRun = { report: FuzzReport; exitCode: number | null; statuses: readonly StatusCount[] }

export const LEAST_CASES = 2_000
/** Requests of an operation that must succeed: otherwise only its rejections were tested. */
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

const OTHERS = 'methods that are not there'

/** A line for each operation, with how often it gave each status, and one for all methods that are none. */
export function tableOf(statuses: readonly StatusCount[], operations: readonly string[]): string {
  const byOperation = Map.groupBy(statuses, ({ operation }) =>
    operations.includes(operation) ? operation : OTHERS,
  )
  const width = Math.max(...[...byOperation.keys()].map(({ length }) => length))
  return [...byOperation]
    .sort(([a], [b]) => operations.indexOf(a) - operations.indexOf(b))
    .map(([operation, of]) => {
      const byStatus = [...Map.groupBy(of, ({ status }) => status)].sort(([a], [b]) => a - b)
      const cells = byStatus.map(([status, counts]) => `${status} x ${sum(counts)}`)
      return `${operation.padEnd(width)}  ${cells.join(', ')}`
    })
    .join('\n')
}

export function sum(statuses: readonly StatusCount[]): number {
  return statuses.reduce((total, { count }) => total + count, 0)
}
