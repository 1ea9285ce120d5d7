/** The panels of the dashboard. */

export type Unit = 's' | 'short' | 'bytes' | 'percentunit' | 'ops'

export type Query = {
  /** With Grafana's `$__rate_interval`. */
  expr: string
  /** With `{{label}}`. */
  legend: string
}

export type Panel = {
  /** `stat` is one number, `table` the newest values of one query. */
  kind: 'stat' | 'lines' | 'table'
  title: string
  about: string
  unit: Unit
  queries: readonly Query[]
  /** The values from which a stat is yellow, and red. */
  thresholds?: readonly [number, number]
}

export type Row = { title: string; panels: readonly Panel[] }

const QUANTILES = [
  ['0.5', 'p50'],
  ['0.99', 'p99'],
] as const

/** Lines for the median and the 99th percentile. */
export function quantiles(metric: string): Query[] {
  return QUANTILES.map(([quantile, legend]) => ({
    expr: `histogram_quantile(${quantile}, sum by (le) (rate(${metric}_bucket[$__rate_interval])))`,
    legend,
  }))
}
