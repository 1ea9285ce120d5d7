/** A run of a fleet as a table, and as figures for a page. */
import { FAULT_KINDS, type FaultKind } from './faults.ts'
import type { FleetRun, FleetRunOptions } from './fleet-run.ts'

type Spread = { count: number; p50: number; p99: number; max: number }

export type FleetFigures = {
  seed: number
  controllers: number
  facades: number
  minutes: number
  events: number
  accepted: number
  receptions: number
  lost: number
  /** Upper bound of the share that is lost, with 95 % confidence, where none was: the rule of three. */
  lostBound95: number
  duplicates: { explained: number; unexplained: number }
  inversions: number
  gaps: number
  overlaps: number
  disablings: number
  afterDisabling: { attempts: number; latestMs: number }
  beyondEight: number
  waitsOutside: number
  doubled: number
  missing: number
  misrouted: number
  disagreed: number
  leftLeases: number
  faults: Record<string, FaultFigures>
  wrong: readonly string[]
}

type FaultFigures = {
  count: number
  /** Requests that came again because of one. */
  duplicates: { total: number; most: number }
  /** Milliseconds in which something due was not attempted; `alone`: where nothing else was done meanwhile. */
  gapMs: Spread
  gapAloneMs: Spread
}

export function fleetFiguresOf(run: FleetRun, options: FleetRunOptions): FleetFigures {
  const { verdict } = run
  const unexplained = verdict.duplicates.filter(({ explained }) => !explained).length
  return {
    seed: options.seed,
    controllers: options.controllers,
    facades: options.facades,
    minutes: round(run.lastedMs / 60_000),
    events: run.events,
    accepted: verdict.accepted,
    receptions: verdict.receptions,
    lost: verdict.lost.length,
    lostBound95: 3 / Math.max(1, verdict.accepted),
    duplicates: { explained: verdict.duplicates.length - unexplained, unexplained },
    inversions: verdict.inversions.length,
    gaps: verdict.gaps.length,
    overlaps: verdict.overlaps.length,
    disablings: run.disablings,
    afterDisabling: { attempts: verdict.late.length, latestMs: Math.round(Math.max(0, ...verdict.late)) },
    beyondEight: verdict.beyond.length,
    waitsOutside: verdict.waits.length,
    doubled: verdict.doubled.length,
    missing: verdict.missing.length,
    misrouted: verdict.misrouted.length,
    disagreed: verdict.disagreed.length,
    leftLeases: run.leases,
    faults: Object.fromEntries(
      FAULT_KINDS.map((kind): [string, FaultFigures] => [kind, faultFiguresOf(run, kind)]).filter(
        ([, { count }]) => count > 0,
      ),
    ),
    wrong: run.wrong,
  }
}

function faultFiguresOf({ faults, gaps, verdict }: FleetRun, kind: FaultKind): FaultFigures {
  const own = faults.filter((one) => one.kind === kind)
  const repeats = own.map((fault) => verdict.repeatsByFault.get(fault) ?? 0)
  const found = gaps.filter((gap) => gap.kind === kind)
  return {
    count: own.length,
    duplicates: { total: repeats.reduce((sum, one) => sum + one, 0), most: Math.max(0, ...repeats) },
    gapMs: spreadOf(found.map(({ ms }) => ms)),
    gapAloneMs: spreadOf(found.filter(({ alone }) => alone).map(({ ms }) => ms)),
  }
}

export function fleetReportOf(run: FleetRun, figures: FleetFigures): string {
  const { faults, wrong } = figures
  const rows: [string, string | number][] = [
    ['controllers, facades', `${figures.controllers}, ${figures.facades}`],
    ['minutes', figures.minutes],
    ['faults', run.faults.length],
    ['events accepted', figures.events],
    ['  as WebhookEvents', run.notes],
    ['deliveries accepted', figures.accepted],
    ['requests received', figures.receptions],
    ['lost', `${figures.lost} (95 % bound: ${figures.lostBound95.toExponential(1)})`],
    ['received twice, explained by a fault', figures.duplicates.explained],
    ['received twice, unexplained', figures.duplicates.unexplained],
    ['out of order', figures.inversions],
    ['begun before the one before had ended', figures.gaps],
    ['two at a time of an ordered endpoint', figures.overlaps],
    ['attempted more than eight times', figures.beyondEight],
    [
      'waits outside the schedule',
      `${figures.waitsOutside} of ${run.verdict.waitsCompared} that nothing disturbed`,
    ],
    ['attempted to the end without success', run.exhausted],
    ['disablings over REST', figures.disablings],
    [
      '  attempts after one, latest',
      `${figures.afterDisabling.attempts}, ${figures.afterDisabling.latestMs} ms`,
    ],
    ['keyed publishes that became two events', figures.doubled],
    ['repeated places in the log', run.repeats],
    ['deliveries to the wrong endpoints, or missing', figures.misrouted],
    ['events matched as before an answered change', figures.disagreed],
    ['requests sent again', `${run.retried} (${failuresOf(run.failures)})`],
    ['delivery objects', run.objects],
    ['Leases left over', figures.leftLeases],
    ['longest stall of this program', `${Math.round(run.stalledMs)} ms`],
  ]
  const width = Math.max(...rows.map(([name]) => name.length))
  const table = rows.map(([name, value]) => `${name.padEnd(width)}  ${value}`)
  const verdict = wrong.length === 0 ? 'All promises held.' : `BROKEN:\n  ${wrong.join('\n  ')}`
  return [...table, '', ...faultTable(faults), '', verdict].join('\n')
}

function faultTable(faults: FleetFigures['faults']): string[] {
  const head = ['fault', 'count', 'duplicates, most of one', 'gap p50, p99, max (s)', 'of those alone']
  const rows = Object.entries(faults).map(([kind, { count, duplicates, gapMs, gapAloneMs }]) => [
    kind,
    String(count),
    `${duplicates.total}, ${duplicates.most}`,
    wordsOf(gapMs),
    `${gapAloneMs.count}: ${wordsOf(gapAloneMs)}`,
  ])
  const widths = head.map((_, column) => Math.max(...[head, ...rows].map((row) => row[column]?.length ?? 0)))
  return [head, ...rows].map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd(),
  )
}

function wordsOf({ count, p50, p99, max }: Spread): string {
  return count === 0 ? '-' : [p50, p99, max].map((ms) => (ms / 1000).toFixed(2)).join(', ')
}

function spreadOf(values: readonly number[]): Spread {
  const sorted = values.toSorted((a, b) => a - b)
  const at = (share: number) => Math.round(sorted[Math.ceil(share * sorted.length) - 1] ?? 0)
  return { count: sorted.length, p50: at(0.5), p99: at(0.99), max: at(1) }
}

function failuresOf(failures: ReadonlyMap<string, number>): string {
  const words = [...failures].sort().map(([why, count]) => `${why}: ${count}`)
  return words.length === 0 ? 'nothing failed' : words.join(', ')
}

function round(value: number): number {
  return Number(value.toFixed(1))
}
