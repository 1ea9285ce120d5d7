/** Metrics that expressions, pages and processes name. */
import { readFileSync } from 'node:fs'
import { ROWS } from '../../tools/docgen/dashboard/panels.ts'
import { allAlerts, ROOT } from './alert-rules.ts'

const METRIC = /(?<![\w"-])(?:davit|controller_runtime|process|nodejs)_[a-z0-9_]*[a-z0-9](?![\w-])/g
const TYPE = /^# TYPE (\S+) (\S+)$/gm

/** Names in text, those of series of a histogram as the histogram's. */
export function metricsIn(text: string): string[] {
  const withoutStrings = text.replaceAll(/"[^"\n]*"/g, '""')
  return [...withoutStrings.matchAll(METRIC)].map(([name]) => name.replace(/_(bucket|sum|count)$/, ''))
}

/** All that a process tells it has, also where there is no sample of it yet. */
export function metricsOfScrape(text: string): string[] {
  return [...text.matchAll(TYPE)].map(([, name = '']) => name)
}

/** The expression of each alert and of each panel, with what it is of. */
export function allExpressions(): [string, string][] {
  const panels = ROWS.flatMap((row) => row.panels)
  return [
    ...allAlerts().map(({ alert, expr }): [string, string] => [alert, expr]),
    ...panels.flatMap(({ title, queries }) => queries.map(({ expr }): [string, string] => [title, expr])),
  ]
}

/** As Prometheus knows it; Grafana fills the range in. */
export function asked(expr: string, range = '15s'): string {
  return expr.replaceAll('$__rate_interval', range)
}

export function page(path: string): string {
  return readFileSync(`${ROOT}${path}`, 'utf8')
}
