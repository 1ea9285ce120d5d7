/** What a run of mutation tests has found, by folder. */
import { z } from 'zod'
import { numberOf } from './sample.ts'

const report = z.object({
  files: z.record(
    z.string(),
    z.object({
      mutants: z.array(
        z.object({
          status: z.string(),
          mutatorName: z.string(),
          replacement: z.string().optional(),
          location: z.object({ start: z.object({ line: z.number(), column: z.number() }) }),
        }),
      ),
    }),
  ),
})

export type Report = z.infer<typeof report>

/** `caught`: a test failed, or did not end. `missed`: all passed, or none runs the line. */
export type Count = { caught: number; missed: number }

export type Survivor = { file: string; line: number; what: string; status: string }

const CAUGHT = new Set(['Killed', 'Timeout', 'RuntimeError'])
const MISSED = new Set(['Survived', 'NoCoverage'])

/** @throws ZodError when it is no report */
export function readReport(text: string): Report {
  return report.parse(JSON.parse(text))
}

/**
 * Without what was not drawn. A change that no test runs was never offered to the draw; it belongs to the sample where its
 * number is among those that were drawn.
 */
export function withinSample({ files }: Report, seed: string): Report {
  const numbered = Object.entries(files).flatMap(([fileName, { mutants }]) =>
    mutants.map((mutant) => ({ fileName, mutant, number: numberOf({ fileName, ...mutant }, seed) })),
  )
  const cut = numbered
    .filter(({ mutant: { status } }) => CAUGHT.has(status) || status === 'Survived')
    .reduce((highest, { number }) => Math.max(highest, number), 0)
  const drawn = numbered.filter(({ mutant, number }) => mutant.status !== 'NoCoverage' || number <= cut)
  const kept = Object.groupBy(drawn, ({ fileName }) => fileName)
  return {
    files: Object.fromEntries(
      Object.entries(kept).map(([fileName, found = []]) => [
        fileName,
        { mutants: found.map(({ mutant }) => mutant) },
      ]),
    ),
  }
}

/** By folder, and all of them under the empty name. What was left out is in neither. */
export function countsOf({ files }: Report): Map<string, Count> {
  const counts = new Map<string, Count>([['', { caught: 0, missed: 0 }]])
  for (const [file, { mutants }] of Object.entries(files)) {
    const folder = file.slice(0, Math.max(0, file.lastIndexOf('/')))
    const ofFolder = counts.get(folder) ?? { caught: 0, missed: 0 }
    counts.set(folder, ofFolder)
    for (const count of [counts.get(''), ofFolder]) {
      if (!count) continue
      count.caught += mutants.filter(({ status }) => CAUGHT.has(status)).length
      count.missed += mutants.filter(({ status }) => MISSED.has(status)).length
    }
  }
  return counts
}

/** Percent, with one digit; undefined where nothing was changed. */
export function scoreOf({ caught, missed }: Count): number | undefined {
  const all = caught + missed
  return all === 0 ? undefined : Math.round((caught / all) * 1000) / 10
}

export function survivorsOf({ files }: Report): Survivor[] {
  return Object.entries(files).flatMap(([file, { mutants }]) =>
    mutants
      .filter(({ status }) => MISSED.has(status))
      .map(({ status, mutatorName, replacement = '', location }) => ({
        file,
        line: location.start.line,
        what: `${mutatorName}: ${replacement.replaceAll(/\s+/g, ' ').slice(0, 80)}`,
        status,
      })),
  )
}

/** What is kept of it. */
export function figuresOf(report: Report): Record<string, number> {
  const figures: Record<string, number> = {}
  for (const [folder, count] of [...countsOf(report)].sort(([a], [b]) => (a < b ? -1 : 1))) {
    const score = scoreOf(count)
    if (score === undefined) continue
    figures[folder === '' ? 'changes' : `${folder}: changes`] = count.caught + count.missed
    figures[folder === '' ? 'caught, %' : `${folder}: caught, %`] = score
  }
  return figures
}
