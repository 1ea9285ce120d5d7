/** Formats a run as a table. */

import type { Operation } from './ledger.ts'
import type { ServerFindings } from './server-chaos.ts'

const MOST_ERRORS = 5
const LONGEST_ERROR = 600

const OPERATIONS: readonly Operation[] = ['publish', 'ping', 'redeliver', 'create', 'roll']

export function serverReportOf(findings: ServerFindings): string {
  const { ledger, verdict, troubles, wrong } = findings
  const keyed = ledger.accepted.filter(({ key }) => key !== undefined).length
  const counted = (kind: string) => troubles.filter((one) => one.kind === kind).length
  const rows: [string, string | number][] = [
    ['clients, REST servers', `${findings.clients}, ${findings.servers}`],
    ['requests for', `${Math.round(findings.lastedMs / 1000)} s`],
    ['kill -9 of every REST server, of one', `${counted('all')}, ${counted('one')}`],
    ['API server outages', counted('outage')],
    ['accepted (2xx)', ledger.accepted.length],
    ...OPERATIONS.map((operation): [string, number] => [
      `  ${operation}`,
      ledger.accepted.filter((one) => one.operation === operation).length,
    ]),
    ['  under an Idempotency-Key', keyed],
    ['sent once, and not answered', ledger.unknown.size],
    ['sent again under the key', ledger.retried],
    ['  since', failuresOf(ledger.failures)],
    ['answered requests that were repeated', ledger.repeated],
    ['deliveries read right after their answer', ledger.read],
    ['lost', verdict.lost.length],
    ['duplicates under the same key', verdict.duplicates.length],
    ['bodies changed', verdict.changed.length],
    ['out of order', verdict.outOfOrder.length],
    ['received again under the same webhook-id', verdict.again],
    ['errors in the logs of the REST servers', findings.errors.length],
  ]
  const width = Math.max(...rows.map(([name]) => name.length))
  const table = rows.map(([name, value]) => `${name.padEnd(width)}  ${value}`)
  const errors = findings.errors.slice(0, MOST_ERRORS).map((line) => line.slice(0, LONGEST_ERROR))
  const verdictLine = wrong.length === 0 ? 'All promises held.' : `BROKEN:\n  ${wrong.join('\n  ')}`
  return [...table, '', ...errors, verdictLine].join('\n')
}

function failuresOf(failures: ReadonlyMap<string, number>): string {
  const words = [...failures].sort().map(([why, count]) => `${why}: ${count}`)
  return words.length === 0 ? 'nothing failed' : words.join(', ')
}
