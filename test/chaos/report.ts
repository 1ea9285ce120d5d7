/** Formats a run as a table. */
import type { Findings } from './findings.ts'

export function reportOf(findings: Findings): string {
  const { deaths, verdict, wrong } = findings
  const explained = verdict.duplicates.filter(({ explained }) => explained)
  const perCrash = deaths.map(({ run }) => explained.filter((one) => one.run === run).length)
  const ready = deaths.flatMap(({ readyAfterMs }) => readyAfterMs ?? []).sort((a, b) => a - b)
  const rows: [string, string | number][] = [
    ['kills', deaths.length],
    ['  of them while it read back', deaths.filter(({ life }) => life.killed === 'start').length],
    ['API server outages', deaths.filter(({ life }) => life.trouble?.kind === 'outage').length],
    ['etcd compactions', deaths.filter(({ life }) => life.trouble?.kind === 'compaction').length],
    ['events accepted', findings.events],
    ['deliveries accepted', verdict.accepted],
    ['requests received', verdict.receptions],
    ['lost', verdict.lost.length],
    ['received twice, explained by a kill', explained.length],
    ['  per kill, mean and most', `${round(mean(perCrash), 2)} and ${Math.max(0, ...perCrash)}`],
    ['  kills without any', perCrash.filter((count) => count === 0).length],
    ['  longest from the 2xx to the kill', `${Math.round(Math.max(0, ...findings.unstoredForMs))} ms`],
    ['received twice, unexplained', verdict.duplicates.length - explained.length],
    ['out of order', verdict.inversions.length],
    ['begun before the one before had ended', verdict.gaps.length],
    ['attempted more than eight times', verdict.beyond.length],
    ['disablings', findings.pauses],
    ['  latest attempt after one', `${Math.round(findings.lateMs)} ms`],
    ['repeated places in the log', findings.repeats],
    [
      'ready after a kill, median and longest',
      `${seconds(ready[ready.length >> 1])} and ${seconds(ready.at(-1))}`,
    ],
  ]
  const width = Math.max(...rows.map(([name]) => name.length))
  const table = rows.map(([name, value]) => `${name.padEnd(width)}  ${value}`)
  const verdictLine = wrong.length === 0 ? 'All promises held.' : `BROKEN:\n  ${wrong.join('\n  ')}`
  return [...table, '', verdictLine].join('\n')
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length)
}

function round(value: number, digits: number): number {
  return Number(value.toFixed(digits))
}

function seconds(ms: number | undefined): string {
  return ms === undefined ? '-' : `${round(ms / 1000, 1)} s`
}
