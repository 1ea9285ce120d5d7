/** The files of a run under bench/results. */
import type { BenchResult } from './report.ts'
import { REST_LOAD_RESULTS, type RestLoadSection } from './rest-load-results.ts'

export type ResultFile = { name: string; result: BenchResult }

/** @returns the files of a run that has measured all of its sections */
export function resultFiles(result: BenchResult): ResultFile[] {
  const { name, sections } = result.plan
  const parts = sectionFiles(result)
  return parts.length === sections.length ? parts : [{ name, result }, ...parts]
}

/**
 * A file for each section that the page of the benchmark shows, so that another run of that section alone replaces it. A quick form
 * never replaces the full one. A run with a name of its own has no such files.
 */
export function sectionFiles(result: BenchResult): ResultFile[] {
  const { plan, measuredAt, commit, about } = result
  if (plan.isNamed) return []
  const suffix = plan.form === 'quick' ? '-quick' : ''
  return measuredSections(result).map((section) => {
    const name = `${section}${suffix}`
    const key = REST_LOAD_RESULTS[section]
    const part = { name, measuredAt, commit, about, plan: { ...plan, name, sections: [section] } }
    return { name, result: { ...part, [key]: result[key] } }
  })
}

function measuredSections(result: BenchResult): RestLoadSection[] {
  const all = Object.keys(REST_LOAD_RESULTS) as RestLoadSection[]
  return all.filter((section) => result[REST_LOAD_RESULTS[section]] !== undefined)
}
