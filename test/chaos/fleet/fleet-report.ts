/** Formats runs of a fleet as a table. */
import { type Counts, type FaultFigures, type FleetFigures, sumOf } from './fleet-figures.ts'

/** For one or more runs. */
export function fleetReportOf(runs: readonly FleetFigures[]): string {
  if (runs.length === 0) return 'No run is kept.'
  const { minutes, counts, faults, broken, latestAfterDisablingMs } = sumOf(runs)
  const rows: [string, string | number][] = [
    ['controllers, REST servers', distinct(runs, (run) => `${run.controllers}, ${run.servers}`)],
    ['lease', distinct(runs, ({ leaseMs }) => `${leaseMs / 1000} s`)],
    ['commits', distinct(runs, ({ commit }) => commit)],
    ['runs, minutes', `${runs.length}, ${minutes}`],
    ['mean load of the machine', distinct(runs, ({ load }) => String(load))],
    ['faults', Object.values(faults).reduce((sum, { count }) => sum + count, 0)],
    ...rowsOf(counts, latestAfterDisablingMs),
    ['latest attempt after a deletion', `${Math.max(...runs.map((run) => run.latestAfterDeletingMs))} ms`],
    [
      'latest retry that nothing disturbed',
      `${Math.max(...runs.map(({ latestWaitMs }) => latestWaitMs))} ms`,
    ],
    ['longest stall of this program', `${Math.max(...runs.map(({ stalledMs }) => stalledMs))} ms`],
  ]
  const width = Math.max(...rows.map(([name]) => name.length))
  const table = rows.map(([name, value]) => `${name.padEnd(width)}  ${value}`)
  const wrong = broken.flatMap(({ seed, commit, wrong }) =>
    wrong.map((what) => `seed ${seed}, ${commit}: ${what}`),
  )
  const verdict = wrong.length === 0 ? 'All promises held.' : `BROKEN:\n  ${wrong.join('\n  ')}`
  return [...table, '', ...faultTable(faults), '', verdict].join('\n')
}

function rowsOf(counts: Counts, latestAfterDisablingMs: number): [string, string | number][] {
  const bound =
    counts.lost === 0 ? ` (95 % bound: ${(3 / Math.max(1, counts.accepted)).toExponential(1)})` : ''
  return [
    ['events accepted', counts.events],
    ['  as WebhookEvents', counts.notes],
    ['deliveries accepted', counts.accepted],
    ['requests received', counts.receptions],
    ['lost', `${counts.lost}${bound}`],
    ['received twice, explained by a fault', counts.explained],
    ['received twice, unexplained', counts.unexplained],
    ['  requests that nothing explained, had they come again', `${counts.watched} of ${counts.taken} taken`],
    ['out of order', counts.inversions],
    ['begun before the one before had ended', counts.gaps],
    ['two at a time of an ordered endpoint', counts.overlaps],
    [
      'sent by controllers whose Lease had ended',
      `${counts.unleased ?? 0} of ${counts.leased ?? 0} whose renewals are known`,
    ],
    ['attempted more than eight times', counts.beyondEight],
    [
      'waits outside the schedule',
      `${counts.waitsOutside} of ${counts.waitsCompared} that nothing disturbed`,
    ],
    ['attempted to the end without success', counts.exhausted],
    ['disablings over REST', counts.disablings],
    ['  attempts after one, latest', `${counts.afterDisabling}, ${latestAfterDisablingMs} ms`],
    ['endpoints deleted', counts.deletions],
    ['  attempts after that', counts.afterDeleting],
    ['segments and deliveries that went meanwhile', counts.forgotten],
    ['keyed publishes that became two events', counts.doubled],
    ['acknowledged events that are not in the log', counts.missing],
    ['repeated places in the log', counts.repeats],
    ['deliveries to the wrong endpoints, or missing', counts.misrouted],
    ['events matched as before an answered change', counts.disagreed],
    ['fail-overs beyond the bound', counts.slowFailOvers],
    ['requests sent again by clients', counts.retried],
    ['delivery objects', counts.objects],
    ['Leases left over', counts.leftLeases],
  ]
}

function faultTable(faults: Readonly<Record<string, FaultFigures>>): string[] {
  const head = [
    'fault',
    'count',
    'duplicates, most of one, before it by at most',
    'gap p50, p99, max (s)',
    'of those alone',
    'fail-over p50, p99, max (s)',
    'of those alone',
    'of these, unordered endpoints',
  ]
  const rows = Object.entries(faults).map(([kind, one]) => [
    kind,
    String(one.count),
    one.duplicates.total === 0
      ? '0'
      : `${one.duplicates.total}, ${one.duplicates.most}, ${one.duplicates.earliestMs} ms`,
    ...[one.gapMs, one.gapAloneMs, one.failOverMs, one.failOverAloneMs, one.failOverUnorderedMs].map(
      spreadOf,
    ),
  ])
  const widths = head.map((_, column) => Math.max(...[head, ...rows].map((row) => row[column]?.length ?? 0)))
  return [head, ...rows].map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd(),
  )
}

/** In seconds, with their number. */
function spreadOf(values: readonly number[]): string {
  if (values.length === 0) return '-'
  const sorted = values.toSorted((a, b) => a - b)
  const at = (share: number) => ((sorted[Math.ceil(share * sorted.length) - 1] ?? 0) / 1000).toFixed(2)
  return `${sorted.length}: ${at(0.5)}, ${at(0.99)}, ${at(1)}`
}

function distinct(runs: readonly FleetFigures[], of: (run: FleetFigures) => string): string {
  return [...new Set(runs.map(of))].join('; ')
}
